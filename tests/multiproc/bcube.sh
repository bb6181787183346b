#!/usr/bin/env bash
# Right sums, and the same bits in all runs, on emulated BCubes. Needs root. Usage: bcube.sh BUILD
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
exec python3 "$(dirname "$0")/bcube.py" "$1" results

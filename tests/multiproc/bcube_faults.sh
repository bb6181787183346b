#!/usr/bin/env bash
# On emulated BCubes, a fault ends the job on all ranks with an error that names it. Needs root. Usage: bcube_faults.sh
# BUILD
command -v python3 > /dev/null || { echo "no python3"; exit 77; }
exec python3 "$(dirname "$0")/bcube.py" "$1" faults

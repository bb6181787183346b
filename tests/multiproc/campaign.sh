#!/usr/bin/env bash
# The campaign of random faults (campaign.py): 6 runs, or 200 with BPS_TEST_LONG=1. Usage: campaign.sh BUILD
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
runs=6 seed=1
[ "${BPS_TEST_LONG:-0}" = 1 ] && runs=200 seed=$((RANDOM * 1000))
exec python3 -B "$(dirname "$0")/campaign.py" "$1" --runs $runs --seed $seed

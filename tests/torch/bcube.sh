#!/usr/bin/env bash
# PyTorch trains on an emulated BCube(2,2). Needs root. Usage: bcube.sh BUILD
"${BPS_TORCH_PYTHON:-python3}" -c 'import bps_torch' 2>/dev/null || { echo "no bps_torch"; exit 77; }
exec python3 "$(dirname "$0")/../multiproc/bcube.py" "$1" torch

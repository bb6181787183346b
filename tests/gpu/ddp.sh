# Runs PyTorch's DistributedDataParallel with and without the preload library; run.sh includes this file. Several ranks
# share one GPU, and each rank acts as a machine.
ddp() { # RANKS SERVERS [VARIABLE=VALUE...]: trains with RANKS ranks and prints the losses
  local ranks=$1 servers=$2 port; shift 2
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  timeout -k 5 300 "$build/bin/bps-run" -n "$ranks" -s "$servers" -- bash -c '
    unset BPS_ROOT BPS_NCCL_LIB_PATH
    export RANK=$BPS_RANK WORLD_SIZE=$BPS_NRANKS LOCAL_RANK=0 NCCL_HOSTID=$BPS_HOSTID MASTER_ADDR=127.0.0.1
    example=$1; shift; exec env "$@" python3 "$example" --backend nccl --epochs 6' ddp "$example" \
    MASTER_PORT="$port" "$@" 2>"$work/err" | sed -n 's/^\(epoch [0-9]*: loss [0-9.]*\),.*/\1/p'
}
compare_losses() { # RANKS SERVERS
  local title="PyTorch DDP, $1 ranks, $2 servers" difference served
  ddp "$1" "$2" >"$work/plain"
  ddp "$1" "$2" LD_PRELOAD="$build/lib/libbps-nccl.so" BPS_NCCL_MIN_BYTES=64K BPS_DEBUG=INFO >"$work/with"
  served=$(grep -oh "rank 0 of $1: [0-9]* all-reduces ([0-9]* bytes) by bps" "$work/err" | head -n 1)
  difference=$(paste "$work/plain" "$work/with" | awk '{ d = $4 - $8; if (d < 0) d = -d; if (d > most) most = d }
    NF != 8 { bad = 1 } END { print NR < 5 || bad ? "none" : most }')
  row "$title" "largest difference of $(wc -l <"$work/with") losses with and without: $difference; ${served:-bps served nothing}"
  # A sum of two values is the same in any order. A sum of more values may differ in the last bits.
  awk -v d="$difference" -v n="$1" 'BEGIN { exit !(d != "none" && d + 0 <= (n == 2 ? 0 : 0.001)) }' && [ -n "$served" ] && return
  failed "$title" "the losses differ, or bps served nothing"
  tail -n 20 "$work/err"
}
if [ -n "$why" ]; then skipped "PyTorch DDP" "$why"
elif python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  row PyTorch "$(python3 -c 'import torch; print(torch.__version__, "NCCL", torch.cuda.nccl.version())')"
  compare_losses 2 1
  compare_losses 3 2
else skipped "PyTorch DDP" "no PyTorch with CUDA"; fi

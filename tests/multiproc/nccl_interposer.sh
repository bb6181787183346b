#!/usr/bin/env bash
# What stands between a program and NCCL: every rule of it, with a double of NCCL and processes that pass for machines;
# and that programs without NCCL do not notice it.
BUILD=$1; . "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.." || exit 1
preload=$(realpath "$BUILD/lib/libbps-nccl.so")
export FAKE_NCCL_DIR=$WORK BPS_NCCL_MIN_BYTES=4K

# Every rule on host memory, and on the double of CUDA's streams and devices.
start() { # DEVICE DIRECTORIES
  start_server "server_$1"
  LD_LIBRARY_PATH=$2 BPS_DEVICE=$1 BPS_SERVERS=$SERVER_ADDRESS FAKE_NCCL_STOP_PID=$SERVER_PID LD_PRELOAD=$preload \
    timeout -k 5 100 "$BUILD/tests/nccl/ranks" "${@:3}" > "$WORK/$1.out" 2> "$WORK/$1.err" &
  RANKS_PID=$!
}
ends_well() { # PID DEVICE
  wait "$1" || fail "BPS_DEVICE=$2: $(grep -v ^ok "$WORK/$2.out"; tail -n 20 "$WORK/$2.err")"
  echo "  BPS_DEVICE=$2: $(tail -n 1 "$WORK/$2.out")"
}
start host "$BUILD/tests/nccl"; host=$RANKS_PID
start cuda "$BUILD/tests/nccl:$BUILD/tests/fake_cuda"
ends_well "$host" host
ends_well "$RANKS_PID" cuda

# Nothing changes for who does not use NCCL: output, errors, exit code.
cat > "$WORK/forks.sh" <<'SCRIPT'
for i in 1 2 3; do (exit "$i"); echo "child $i: $?"; done
ls /nonexistent; exit 7
SCRIPT
same() {
  "$@" > "$WORK/plain.out" 2> "$WORK/plain.err"; local plain=$?
  LD_PRELOAD=$preload "$@" > "$WORK/with.out" 2> "$WORK/with.err"; local with=$?
  [ $plain = $with ] || fail "$*: exit code $with, not $plain"
  cmp "$WORK/plain.out" "$WORK/with.out" && cmp "$WORK/plain.err" "$WORK/with.err" || fail "$*: output differs"
}
same ls -l src
same bash "$WORK/forks.sh"
! command -v python3 > "$WORK/null" || same python3 -c 'print(1)'

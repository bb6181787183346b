#!/usr/bin/env bash
# What stands between a program and NCCL: every rule of it, with a double of NCCL and processes that pass for machines;
# and that programs without NCCL do not notice it.
BUILD=$1; . "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.." || exit 1
preload=$(realpath "$BUILD/lib/libbps-nccl.so")
export FAKE_NCCL_DIR=$WORK BPS_DEVICE=host BPS_NCCL_MIN_BYTES=4K LD_LIBRARY_PATH=$BUILD/tests/nccl

start_server server
export BPS_SERVERS=$SERVER_ADDRESS BPS_TEST_STOP_PID=$SERVER_PID
LD_PRELOAD=$preload timeout -k 5 100 "$BUILD/tests/nccl/ranks" > "$WORK/ranks.out" 2> "$WORK/ranks.err" ||
  fail "$(grep -v ^ok "$WORK/ranks.out"; tail -n 20 "$WORK/ranks.err")"
tail -n 1 "$WORK/ranks.out"
unset LD_LIBRARY_PATH BPS_DEVICE

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

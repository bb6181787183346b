#!/usr/bin/env bash
# The same programs with the same options on a machine with CUDA (the fake driver) and on one without. Usage:
# fake_cuda.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
fake=$(realpath "$BUILD")/tests/fake_cuda
[ -e "$fake/libcuda.so.1" ] || fail "the fake CUDA driver is not built"
perf=(timeout 60 "$BIN/bps-run" -n 2 -s 1 "$BIN/bps-perf" -b 4 -e 2M -f 512 -n 2 -w 1 -m 2)
with_fake() { env LD_LIBRARY_PATH="$fake" "$@"; }
right() { grep -q '^# Out of bounds values : 0 OK' "$WORK/out" || fail "$1: $(tail -n 15 "$WORK/out")"; }

with_fake "${perf[@]}" >"$WORK/out" 2>&1 || fail "on devices: $(tail -n 15 "$WORK/out")"
right "on devices"
[ "$(grep -c '\[device memory\] fake GPU' "$WORK/out")" = 2 ] || fail "not on devices: $(grep Rank "$WORK/out")"
with_fake "${perf[@]}" -y 1 -z 1 -I 1 >"$WORK/out" 2>&1 || fail "default stream: $(tail -n 15 "$WORK/out")"
right "default stream"
# Ranks that share a machine: processes with one device each, and ranks of one process.
shared() { # TITLE RANKS_OF_A_PROCESS BPS_RUN_OPTIONS
  with_fake env FAKE_CUDA_DEVICES=2 BPS_NCCL_LIB_PATH=/nowhere timeout 60 "$BIN/bps-run" "${@:3}" "$BIN/bps-perf" -b 4 -e 2M -f 512 -n 2 -w 1 \
    -m 2 -g "$2" >"$WORK/out" 2>&1 || fail "$1: $(tail -n 15 "$WORK/out")"
  right "$1"
  [ "$(grep -c '\[device memory\] fake GPU' "$WORK/out")" = 4 ] || fail "$1, not on devices: $(grep Rank "$WORK/out")"
}
shared "two ranks of a machine" 1 -n 2 -m 2 -s 1
BPS_RAILS=2 shared "each with connections of its own" 1 -n 2 -m 2 -s 1
shared "ranks of one process" 4 -n 1
# If NCCL is installed, it combines the buffers of a machine's GPUs, and all ranks receive its errors. Two machines: see
# gpu_kit.sh.
export FAKE_NCCL_DIR=$WORK
nccl=$(realpath "$BUILD")/tests/nccl/libnccl.so.2
inside() { # TITLE WORDS BPS_RUN_OPTIONS -- COMMAND...
  with_fake env BPS_DEBUG=INFO FAKE_CUDA_DEVICES=2 timeout 60 "$BIN/bps-run" "${@:3}" >"$WORK/out" 2>&1 ||
    fail "$1: $(grep -E 'wrong|FAIL' "$WORK/out"; tail -n 15 "$WORK/out")"
  grep -qF "device memory inside machines: $2" "$WORK/out" || fail "$1: $(grep 'device memory inside' "$WORK/out")"
}
ranks=(env BPS_NCCL_LIB_PATH="$nccl" GPU_TEST_COMBINES=1 "$BUILD/tests/gpu_ranks" gpu-groups 2097152)
inside "one machine" "calls of 262144 bytes and more by NCCL on 2 GPUs;" -n 1 -m 2 -- "${ranks[@]}"
with_fake env FAKE_CUDA_DEVICES=2 BPS_NCCL_LIB_PATH="$nccl" timeout 60 "$BIN/bps-run" -n 2 -m 2 "$BUILD/tests/gpu_ranks" failures 2097152 \
  >"$WORK/out" 2>&1 || fail "failures: $(grep -E 'wrong' "$WORK/out"; tail -n 25 "$WORK/out")"
BPS_TIMEOUT=1.5 inside "NCCL on one rank only" "by bps, in host memory (rank 1: ncclCommInitRankConfig: " -n 1 -m 2 -- \
  env BPS_NCCL_LIB_PATH="$nccl" "$BUILD/tests/gpu_ranks" missing 2097152
inside "no NCCL" "by bps, in host memory (rank 0 has no local GPU group: no NCCL library was found" -n 1 -m 2 -- \
  env BPS_NCCL_LIB_PATH=/nowhere "$BIN/bps-perf" -b 1M -e 1M -n 1 -w 0 -m 1

# Host memory: on request, without a device, without a driver.
for how in "BPS_DEVICE=host LD_LIBRARY_PATH=$fake" "FAKE_CUDA_DEVICES=0 LD_LIBRARY_PATH=$fake" BPS_DEVICE=auto; do
  env $how "${perf[@]}" >"$WORK/out" 2>&1 || fail "$how: $(tail -n 15 "$WORK/out")"
  right "$how"
  [ "$(grep -c '\[host memory\] CPU' "$WORK/out")" = 2 ] || fail "$how: $(grep Rank "$WORK/out")"
done
# BPS_DEVICE=cuda without a device is an error with the reason.
env BPS_DEVICE=cuda FAKE_CUDA_DEVICES=0 LD_LIBRARY_PATH="$fake" "${perf[@]}" >"$WORK/out" 2>&1 && fail "no device, and no error"
grep -q 'cuInit: ' "$WORK/out" || fail "the error does not say why: $(tail -n 5 "$WORK/out")"

# The tests for a real GPU also run on the fake driver, and with all streams of a priority on one queue of the device.
# With one queue two ranks cannot share a process: one would be queued behind the other.
with_fake env FAKE_CUDA_SERIAL_CALLBACKS=1 timeout 100 "$BUILD/tests/gpu" >"$WORK/out" 2>&1 ||
  fail "serial callbacks: $(grep -E 'Failure|FAILED' -A5 "$WORK/out" | head -n 20)"
with_fake env FAKE_CUDA_QUEUES=1 "${perf[@]}" >"$WORK/out" 2>&1 || fail "one queue: $(tail -n 15 "$WORK/out")"
right "one queue"

#!/usr/bin/env bash
# The kit of `make gpu-kit`, copied to a directory outside the repository, with a fake nvidia-smi: its table, its exit
# status and its file of results. Usage: gpu_kit.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
set -o pipefail
build=$(realpath "$BUILD")
[ -x "$build/gpu-kit/run.sh" ] || fail "$build/gpu-kit is not built"
cp -r "$build/gpu-kit" "$WORK/kit" && mkdir "$WORK/smi" "$WORK/empty" && cd "$WORK/empty" || fail "copying the kit"
smi() { printf '#!/bin/sh\n%s\n' "$1" >"$WORK/smi/nvidia-smi" && chmod +x "$WORK/smi/nvidia-smi"; }
# run STATUS: runs the kit and checks its exit status.
run() {
  local got
  PATH="$WORK/smi:$PATH" timeout 200 "$WORK/kit/run.sh" "$WORK/results.md" >"$WORK/out" 2>&1
  got=$?
  [ $got = "$1" ] || fail "status $got instead of $1: $(grep -E '^(--|wrong)' "$WORK/out"; tail -n 20 "$WORK/out")"
}

# Without a driver: every row but the first is skipped with the reason, and no file is written.
for output in 'echo "NVIDIA-SMI has failed because it could not communicate with the driver"; exit 9' 'echo "No devices were found"; exit 6' \
  'echo "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error"; exit 15'; do
  smi "$output"
  run 77
  rows=$(sed -n '/^|---/,$p' "$WORK/out" | grep '^| ')
  [ "$(grep -c . <<<"$rows")" -ge 20 ] || fail "few rows: $rows"
  ! grep -v '^| bps |' <<<"$rows" | grep -v 'skipped: no NVIDIA driver or no GPU (nvidia-smi -L: status' || fail "a row was not skipped: $rows"
  [ ! -e "$WORK/results.md" ] || fail "results without a GPU"
done

# With fakes of the driver and of NCCL, and without PyTorch. nvidia-smi lists a GPU that has an error, and fails.
printf '# Results\n<!-- results -->\nold\n<!-- end of results -->\nrest\n' >"$WORK/results.md"
smi 'for gpu in 0 1; do echo "GPU $gpu: a fake (UUID: 0)"; done; echo "GPU 2: Unknown Error"; exit ${FAKE_SMI_STATUS:-0}'
export LD_LIBRARY_PATH="$build/tests/fake_cuda:$build/tests/nccl" FAKE_NCCL_DIR=$WORK GPU_TEST_LARGEST=4194304 \
  FAKE_CUDA_DEVICES=2 GPU_TEST_COMBINES=1
torch=3
python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null && torch=0
run $torch
for row in 'GPU \| 2; ' 'streams.*\| right \|' 'figures \| a call keeps its caller for at most [0-9.]+ us' 'figures \| 4194304 B: on the device' \
  'launch behind an all-reduce \| right' 'cuMemFree behind an all-reduce \| right' 'captured stream is refused \| right' 'fork .*\| right' \
  'optional\) \| 1048576 B, 4 ranks: by NCCL inside' 'optional\) \| device memory inside machines: calls of 262144 bytes and more by NCCL on 2 GPUs, 2 of which own' \
  'go on \| NCCL.s all-reduces beside a call .* met' 'net plugin \| 1048576 B in .* right bits; NCCL 22809' \
  'program under LD_PRELOAD \| 1048576 B in .* right bits' 'program under LD_PRELOAD \| rank 0 of 2: [1-9][0-9]* all-reduces' \
  'LD_PRELOAD \| .*all-reduces of 65536 bytes and more by bps' 'measures NCCL and bps \| NCCL communicator of 2 ranks' \
  'groups of 32 all-reduces, under LD_PRELOAD \| rank 0 of 2: [1-9]' 'non-blocking communicator, under LD_PRELOAD \| rank 0 of 2: [1-9]' '^rest'; do
  grep -qE "$row" "$WORK/results.md" || fail "no \"$row\" in the results: $(cat "$WORK/results.md")"
done
! grep -qE '^old|FAILED' "$WORK/results.md" || fail "$(cat "$WORK/results.md")"

# A failing nvidia-smi and a failing program are failures. Programs that do nothing take the place of the others.
for program in "$WORK"/kit/bin/* "$WORK"/kit/tests/*; do ln -sf /bin/true "$program"; done
ln -sf /bin/false "$WORK/kit/tests/gpu"
FAKE_SMI_STATUS=14 run 1
for row in 'GPU \| 2; ' 'nvidia-smi \| FAILED: status 14, GPU 2: Unknown Error' 'streams.*\| FAILED: status 1' 'figures \| right'; do
  grep -qE "$row" "$WORK/results.md" || fail "no \"$row\" in the results: $(cat "$WORK/results.md")"
done

#!/bin/bash
# What needs a real GPU: run.sh [BUILD]. Says "skipped: no NVIDIA driver" where there is none. The output is what
# docs/gpu-results.md wants, with the versions in front.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  echo "skipped: no NVIDIA driver"
  exit 0
fi
status=0
step() {
  echo "== $*"
  timeout -k 5 300 "$@" || { status=1; echo "FAILED: $*"; }
}
git log -1 --format='bps %h' 2>/dev/null
nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.max,pcie.link.width.max --format=csv,noheader
step "$build/tests/gpu"
# One queue for all streams of a priority: the hardest case for streams that wait.
one_queue=(env CUDA_DEVICE_MAX_CONNECTIONS=1 CUDA_DEVICE_MAX_COPY_CONNECTIONS=1)
step "${one_queue[@]}" "$build/tests/gpu" --gtest_filter='Gpu.ManyStreams'
step "${one_queue[@]}" "$build/bin/bps-run" -n 2 -s 1 "$build/bin/bps-perf" -b 8 -e 64M -f 8 -n 3 -m 4
step "$build/bin/bps-run" -n 2 -s 1 "$build/bin/bps-perf" -b 8 -e 256M -f 8 -d all -n 3
step "$build/bin/bps-run" -n 2 -s 1 "$build/bin/bps-perf" -b 64M -e 64M -n 10
step env BPS_DEVICE=host "$build/bin/bps-run" -n 2 -s 1 "$build/bin/bps-perf" -b 64M -e 64M -n 10
if command -v compute-sanitizer >/dev/null; then step compute-sanitizer --error-exitcode 9 "$build/tests/gpu" --gtest_filter='Gpu.SameBits*'
else echo "skipped: no compute-sanitizer"; fi
exit $status

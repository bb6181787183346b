#!/bin/bash
# The kernel in src/cuda/sum is the PTX text that clang makes of its source. Usage: ptx.sh [--fix] [BUILD].
# Other versions of clang make other text of the same meaning, so only version 14 compares.
. "$(dirname "$0")/common.sh"
kernel=src/cuda/sum/sum_kernel
clang=$(command -v clang++-14) || { echo "no clang++-14"; exit 77; }
"$clang" --print-targets | grep -q nvptx64 || { echo "clang++-14 has no NVPTX backend"; exit 77; }

# -ffp-contract=off: no fused multiply-add. -inline-threshold: one function without calls, which keeps its parameters in
# registers. clang keeps subnormals unless it is asked to flush them.
made() {
  echo 'R"ptx(' # the lines are in several literals, because compilers limit the length of one
  "$clang" -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_70 -Wno-unknown-cuda-version \
    -std=c++20 -O2 -fno-unroll-loops -ffp-contract=off -mllvm -inline-threshold=100000 -I. -S -o - $kernel.cu |
    sed -e '/^\/\//d' -e '/^[[:space:]]*\/\//d' -e '/^$/d' -e 's/[[:space:]]*$//' |
    awk '{ print } NR % 1000 == 0 { print ")ptx\",\nR\"ptx(" }'
  echo ')ptx"'
}
if [ "${1:-}" = --fix ]; then made > $kernel.ptx; exit; fi
made | cmp -s - $kernel.ptx || { echo "$kernel.ptx is not made of $kernel.cu; \`make ptx\` writes it"; exit 1; }
! grep -nE 'fma|\.ftz|\.local|\.func' $kernel.ptx || { echo "$kernel.ptx: fused, flushed or slow code"; exit 1; }

#!/bin/bash
# Compiles cpu_reduce and its tests for aarch64, and runs the tests in user-mode emulation. The first emulated CPU has
# only NEON. The second emulated CPU also has SVE. Usage: aarch64.sh [BUILD]. If a tool is missing, the exit status is
# 77 (skipped).
set -euo pipefail
cd "$(dirname "$0")/../../.."
build=${1:-build}/aarch64
CXX=aarch64-linux-gnu-g++
gtest=/usr/src/googletest/googletest
for tool in "$CXX" qemu-aarch64; do
  command -v "$tool" >/dev/null || { echo "skip: no $tool (apt install g++-aarch64-linux-gnu qemu-user)"; exit 77; }
done
[ -f "$gtest/src/gtest-all.cc" ] || { echo "skip: no $gtest (apt install googletest)"; exit 77; }
[ -d /usr/include/hwy ] || { echo "skip: no Highway (apt install libhwy-dev)"; exit 77; }

# The build uses only Highway's headers from /usr/include, because the other headers there are for the host's CPU.
mkdir -p "$build/include"
ln -sfn /usr/include/hwy "$build/include/hwy"
warn="-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"
flags="-std=c++20 -O2 -fopenmp -ffp-contract=off -I. -isystem $build/include -isystem $gtest/include"

# compile SOURCE [FLAGS]: compiles SOURCE if any source file is newer than the object file.
compile() {
  local object=$build/$(basename "$1" .cc).o
  objects+=("$object")
  [ -f "$object" ] && [ -z "$(find cpu_reduce tests/unit/cpu_reduce src/base -newer "$object" -name '*.[hc]*')" ] && return
  # shellcheck disable=SC2086
  "$CXX" $flags ${2:-} -c "$1" -o "$object"
}

objects=()
for source in cpu_reduce/*.cc tests/unit/cpu_reduce/*_test.cc; do compile "$source" "$warn"; done
compile "$gtest/src/gtest-all.cc" "-I$gtest"
compile "$gtest/src/gtest_main.cc" "-I$gtest"
"$CXX" -fopenmp "${objects[@]}" -o "$build/cpu_reduce_test"

if aarch64-linux-gnu-nm -C "$build"/*.o | grep -q ' U hwy::'; then
  echo "a symbol of Highway's library is needed"
  exit 1
fi

for cpu in cortex-a72 max,sve-default-vector-length=32; do
  echo "cpu $cpu"
  qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu "$cpu" "$build/cpu_reduce_test" --gtest_brief=1
done

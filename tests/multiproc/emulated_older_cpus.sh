#!/usr/bin/env bash
# On CPUs without some of this machine's instructions, the library selects other kernels and never runs unsupported
# instructions. Emulated CPUs test this on new machines too.
BUILD=$1; . "$(dirname "$0")/lib.sh"
[ "$(uname -m)" = x86_64 ] || skip "x86-64 only"
command -v qemu-x86_64 >/dev/null || skip "no qemu-x86_64 (apt install qemu-user)"
unit=$BUILD/tests/unit
[ -x "$unit" ] || fail "$unit is not built"

# on CPU VECTORS: the test names list exactly these vector kernels on the emulated CPU.
on() {
  local cpu=$1 expected=$2 found
  found=$(qemu-x86_64 -cpu "$cpu" "$unit" --gtest_list_tests --gtest_filter='*Kernels.MatchScalarForEveryLength/*_float' 2> "$WORK/err" |
    sed -n 's,^ *MatchScalarForEveryLength/\([a-z0-9]*\)_.*,\1,p' | paste -sd' ')
  [ "$found" = "$expected" ] || fail "$cpu: kernels \"$found\", expected \"$expected\": $(cat "$WORK/err")"
  timeout 100 qemu-x86_64 -cpu "$cpu" "$unit" --gtest_brief=1 \
    --gtest_filter='Dispatch.*:Reduce.*:*Kernels.MatchScalarForEveryLength/*-*LargerThanTheCache' > "$WORK/out" 2>&1 ||
    fail "$cpu: $(tail -n 5 "$WORK/out")"
  grep -q '  PASSED  ' "$WORK/out" || fail "$cpu: no test ran"
}
on qemu64 ""
on Nehalem sse4
on Haswell "avx2 sse4"

#!/usr/bin/env bash
# Three ranks and two servers give no wrong value for every type and operation. The examples compile as their first
# lines say.
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_KEY_FILE
"$BIN/bps-run" -n 3 -s 2 -- "$BIN/bps-perf" -b 4 -e 1M -f 4 -d all -o all -c 1 -n 1 -w 0 > "$WORK/out" 2> "$WORK/err" ||
  fail "exit $?: $(tail -qn 5 "$WORK/out" "$WORK/err")"
grep -q '^# Out of bounds values : 0 OK' "$WORK/out" || fail "no clean footer: $(tail -qn 5 "$WORK/out")"
rows=$(grep -cE '^ +[0-9]+ +[0-9]+ ' "$WORK/out")
[ "$rows" -ge $((12 * 6 * 9)) ] || fail "only $rows rows"

cd "$(dirname "$0")/../.." || exit 1
for example in all_reduce all_reduce_nccl; do
  cc -Wall -Wextra -Werror -Iinclude "examples/$example.c" -o "$WORK/$example" -L"$BUILD/lib" -lbps \
    -Wl,-rpath,"$(realpath "$BUILD/lib")" || fail "$example does not compile"
  "$BIN/bps-run" -n 3 -s 2 -v -- "$WORK/$example" > "$WORK/out" 2>&1 || fail "$example: exit $?: $(tail -n 5 "$WORK/out")"
  [ "$(grep -c 'rank [0-2] of 3: sum 6' "$WORK/out")" = 3 ] || fail "$example: $(tail -n 9 "$WORK/out")"
done
! command -v python3 > "$WORK/null" || python3 -c 'compile(open("examples/ddp.py").read(), "ddp.py", "exec")' || fail "ddp.py"

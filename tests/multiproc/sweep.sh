#!/usr/bin/env bash
# Three ranks and two servers, every type and operation: no wrong value.
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_KEY_FILE
"$BIN/bps-run" -n 3 -s 2 -- "$BIN/bps-perf" -b 4 -e 1M -f 4 -d all -o all -c 1 -n 1 -w 0 > "$WORK/out" 2> "$WORK/err" ||
  fail "exit $?: $(tail -qn 5 "$WORK/out" "$WORK/err")"
grep -q '^# Out of bounds values : 0 OK' "$WORK/out" || fail "no clean footer: $(tail -qn 5 "$WORK/out")"
rows=$(grep -cE '^ +[0-9]+ +[0-9]+ ' "$WORK/out")
[ "$rows" -ge $((12 * 6 * 9)) ] || fail "only $rows rows"

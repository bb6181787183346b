#!/usr/bin/env bash
# perf/server_cpu measures, and names a missing program.
BUILD=$1; . "$(dirname "$0")/lib.sh"
command=$(dirname "$0")/../../perf/server_cpu
"$command" --build "$BUILD" -n 2 -b 8M --times 1 > "$WORK/out" 2>&1 || fail "exit $?: $(tail -n 5 "$WORK/out")"
grep -qE '^ +8388608( +[0-9]+\.[0-9]{3} \([0-9.]+-[0-9.]+\)){3}$' "$WORK/out" || fail "no row: $(cat "$WORK/out")"
! "$command" --build "$WORK" > "$WORK/out" 2>&1 || fail "nothing was missing"
grep -q "$WORK: there is no bin/bps-server" "$WORK/out" || fail "it does not say what is missing: $(cat "$WORK/out")"

#!/usr/bin/env bash
# perf/async_bench: its rows, its picture, and its errors. Usage: async_bench.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_SOCKET_IFNAME BPS_TIMEOUT BPS_KEY_FILE
command -v python3 >/dev/null || skip "no python3"
BENCH="$(dirname "$0")/../../perf/async_bench"

"$BENCH" --build "$BUILD" -n 3 -k 1 --steps 60 --every 20 --compute 2 --repeat 1 --json "$WORK/a.json" --plot "$WORK/a.svg" \
  > "$WORK/out" 2> "$WORK/err" || fail "status $?: $(cat "$WORK/out" "$WORK/err")"
[ "$(grep -vc '^#' "$WORK/out")" = 6 ] || fail "rows: $(cat "$WORK/out")"
python3 - "$WORK/a.json" "$WORK/a.svg" <<'PYTHON' || fail "the numbers: $(cat "$WORK/out")"
import json, sys, xml.dom.minidom
facts = json.load(open(sys.argv[1]))
assert len(xml.dom.minidom.parse(sys.argv[2]).getElementsByTagName("path")) > 6
for case in facts["cases"]:
    assert [step for _, step, _ in case["points"]] == [20, 40, 60], case
    assert case["points"][-1][2] < case["points"][0][2] < 3, case  # it learns
    slow = case["rates"][2]
    assert 25 < slow < 500, case
    if case["slow"] == 2:  # 20 ms of computation in each step of rank 2
        assert slow < 50, case
        if case["staleness"] == "none":
            assert case["rates"][0] > 1.5 * slow, case
        else:  # at most 4 of 60 steps ahead
            assert case["rates"][0] < 1.2 * slow, case
PYTHON
"$BENCH" --build "$BUILD" --steps 0 > "$WORK/out" 2> "$WORK/err" && fail "--steps 0 is accepted"
grep -q -- "--steps: invalid positive value: '0'" "$WORK/err" || fail "$(cat "$WORK/err")"
echo ok

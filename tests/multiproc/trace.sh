#!/usr/bin/env bash
# BPS_TRACE and bps-trace with real processes: the merged timeline, the clocks, a slow rank and a slow link named as the
# cause, and what happens to files that cannot be written or read. Usage: trace.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
HERE=$(dirname "$0")
TRACE=$BIN/bps-trace
RANK=(python3 "$HERE/traced_rank.py" "$BUILD/lib/libbps.so")
mkdir "$WORK/t"

servers() {
  start_server one; local one=$SERVER_ADDRESS
  start_server two
  export BPS_SERVERS=$one,$SERVER_ADDRESS
}
ranks_end() { for r in "${!RANK_PIDS[@]}"; do wait "${RANK_PIDS[$r]}" || fail "$1: rank $r: $(cat "$WORK/rank$r.err")"; done; }
has_files() { [ "$(find "$WORK/t" -type f -size +100c | wc -l)" = "$1" ]; }  # a server writes when the ranks have left
report() { "$TRACE" report "$WORK"/t/* > "$WORK/report" 2>&1 || fail "$1: report: $(cat "$WORK/report")"; }
says() { grep -qE -- "$2" "$WORK/report" || fail "$1: the report does not say \"$2\": $(cat "$WORK/report")"; }

# refuses WHY FILE...: one line that names the last file and says what is wrong with it.
refuses() {
  "$TRACE" report "${@:2}" > "$WORK/out" 2> "$WORK/err" && fail "report $* does not fail"
  grep -qF "${*: -1}: " "$WORK/err" && grep -qE "$1" "$WORK/err" || fail "report ${*:2}: $(cat "$WORK/err")"
}

# clocks AHEAD: true if the files say that rank 0's clock is ahead of rank 2's by AHEAD nanoseconds, and of others' by 0.
clocks() {
  python3 - "$1" "$WORK"/t/* > "$WORK/clocks" <<'PYTHON'
import struct, sys
bad = []
for path in sys.argv[2:]:
    data, at = open(path, "rb").read(), 20
    def get(form):
        global at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values if len(values) > 1 else values[0]
    server, number, _, _, host = get("BIIQI")
    at += host + 4 + 4 + 4
    for _ in range(get("I")):  # the names and rates of the endpoints
        length = get("I")
        at += length + 8
    points = [get("QqQ") for _ in range(get("I"))]
    if not server and number == 0:
        if points: bad.append(f"{path}: rank 0 measures itself")
        continue
    _, ahead, uncertainty = min(points, key=lambda point: point[2])
    expected = int(sys.argv[1]) if (server, number) == (0, 2) else 0
    if abs(ahead - expected) > 100e3 or uncertainty > 100e3:
        bad.append(f"{path}: rank 0 is ahead by {ahead - expected} ns more than it is, within {uncertainty} ns")
print("\n".join(bad))
sys.exit(bool(bad))
PYTHON
}

export BPS_TRACE=$WORK/t/trace.%r
servers
# On a machine that is busy with other work, no round trip of a short job may be short enough. So there are three tries.
for try in 1 2 3; do
  rm -f "$WORK"/t/*
  start_ranks 4 "${RANK[@]}" 20 2000000 0
  ranks_end "a job"
  wait_for 10 has_files 6 || fail "not a file for each rank and server: $(ls -l "$WORK/t")"
  clocks 0 && break
  [ $try = 3 ] && fail "$(cat "$WORK/clocks")"
done
report "a job"
says "a job" "^4 ranks on 4 machines, 2 servers, 2[0-9] calls"
says "a job" "% .* network"
says "a job" "1.907 MiB  20 calls"
says "a job" "^what would help: "
grep -q "no file\|unknown" "$WORK/report" && fail "a job: $(cat "$WORK/report")"
[ "$(wc -l < "$WORK/report")" -le 18 ] || fail "the report is too long: $(cat "$WORK/report")"
"$TRACE" merge "$WORK"/t/* -o "$WORK/merged.json" || fail "merge"
python3 - "$WORK/merged.json" <<'PYTHON' || fail "the merged timeline"
import collections, json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
tracks = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
slices = collections.defaultdict(list)
flows = collections.defaultdict(dict)
for e in events:
    assert e["ph"] in "MXCsf", e
    if e["ph"] == "M":
        continue
    assert e["pid"] in names and e["ts"] >= 0, e
    if e["ph"] == "X":
        assert e["dur"] > 0 and (e["pid"], e["tid"]) in tracks and e["name"] and e["cat"] and "call" in e["args"], e
        slices[e["pid"], e["tid"]].append(e)
    if e["ph"] in "sf":
        flows[e["id"]][e["ph"]] = e
assert sorted(name.split(" (")[0] for name in names.values())[:4] == [f"rank {r}" for r in range(4)], names
assert sum(name.startswith("server ") for name in names.values()) == 2, names
for track in slices.values():
    track.sort(key=lambda e: e["ts"])
    for before, after in zip(track, track[1:]):
        assert before["ts"] + before["dur"] <= after["ts"] + 0.002, (before, after)
kinds = collections.Counter(e["cat"] for track in slices.values() for e in track)
assert all(kinds[kind] >= 20 for kind in ("call", "push", "sum", "answer", "wait")), kinds
assert len(flows) >= 100, len(flows)
for ends in flows.values():
    assert set(ends) == {"s", "f"}, ends
    for e in ends.values():
        assert any(s["ts"] - 0.001 <= e["ts"] <= s["ts"] + s["dur"] for s in slices[e["pid"], e["tid"]]), e
    assert ends["f"]["ts"] - ends["s"]["ts"] > -100, ends  # clocks within 100 us
PYTHON
"$TRACE" draw "$WORK"/t/* -o "$WORK/picture.svg" && python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' \
  "$WORK/picture.svg" || fail "draw"

# Files that are not what they should be.
refuses "not a trace of bps" "$HERE/trace.sh"
refuses "cannot be opened" "$WORK/nothing"
head -c 1000 "$WORK/t/trace.1" > "$WORK/cut"
refuses "is cut off" "$WORK/cut"
python3 -c 'import sys; d = bytearray(open(sys.argv[1], "rb").read()); d[900] ^= 4; open(sys.argv[2], "wb").write(d)' \
  "$WORK/t/trace.1" "$WORK/damaged"
refuses "is damaged" "$WORK/damaged"
cp "$WORK/t/trace.1" "$WORK/other"
refuses "is of rank 1, and so is" "$WORK/t/trace.1" "$WORK/other"

# A rank that is late for every call, and that exits without bpsCommDestroy. The other ranks wait for it.
rm -f "$WORK"/t/*
slow_rank() { if [ "$BPS_RANK" = 3 ]; then "${RANK[@]}" 12 100000 0.03 leave; else "${RANK[@]}" 12 100000 0; fi; }
start_ranks 4 slow_rank
ranks_end "a slow rank"
wait_for 10 has_files 6 || fail "a slow rank: not all files: $(ls -l "$WORK/t")"
report "a slow rank"
sed -n 3p "$WORK/report" | grep -qE " [5-9][0-9]\.[0-9] % .* waiting for rank 3$" || fail "a slow rank: $(cat "$WORK/report")"
says "a slow rank" "^what would help: rank 3 as early as the others: [0-9.]+ x"

# A rank whose clock is 1000 s ahead.
if unshare --fork -T --monotonic 1000 true 2>/dev/null; then
  other_clock() {
    if [ "$BPS_RANK" = 2 ]; then unshare --fork -T --monotonic 1000 "${RANK[@]}" 10 100000 0; else "${RANK[@]}" 10 100000 0; fi
  }
  for try in 1 2 3; do
    rm -f "$WORK"/t/*
    start_ranks 4 other_clock
    ranks_end "another clock"
    wait_for 10 has_files 6 || fail "another clock: not all files: $(ls -l "$WORK/t")"
    clocks -1000000000000 && break
    [ $try = 3 ] && fail "another clock: $(cat "$WORK/clocks")"
  done
  report "another clock"
  sed -n 1p "$WORK/report" | grep -qE "calls in [0-9.]+ (ms|s); " || fail "another clock: $(cat "$WORK/report")"
  [ "$(sed -nE '1s/.* calls in ([0-9]+)[.0-9]* s;.*/\1/p' "$WORK/report")" -lt 60 ] 2>/dev/null ||
    grep -q "calls in [0-9.]* ms" "$WORK/report" || fail "another clock: $(cat "$WORK/report")"
else
  echo "(another clock: skipped: no time namespaces)"
fi

# A file that cannot be written is a warning that names it. A pattern that gives all ranks one file is an error.
BPS_TRACE=$WORK/no/such/folder.%r start_ranks 2 "${RANK[@]}" 2 1000 0
ranks_end "a path that cannot be written"
grep -qE "WARN .*$WORK/no/such/folder.0 cannot be opened" "$WORK/rank0.err" || fail "no warning: $(cat "$WORK/rank0.err")"
BPS_TRACE=$WORK/t/all start_ranks 2 "${RANK[@]}" 2 1000 0
ends_with_error 0 "BPS_TRACE=.*needs %r" 10

# After a failure, ranks that survive still write their files.
rm -f "$WORK"/t/*
start_ranks 3 "${RANK[@]}" 100000 1000 0.001
for r in 0 1 2; do wait_for 10 grep -q started "$WORK/rank$r.out" || fail "rank $r does not start"; done
{ kill -KILL "${RANK_PIDS[2]}"; wait "${RANK_PIDS[2]}"; } 2> /dev/null
ends_with_error 0 "rank 2" 20
ends_with_error 1 "rank 2" 20
"$TRACE" report "$WORK"/t/trace.[01] > "$WORK/report" 2>&1 || fail "after a failure: $(cat "$WORK/report")"
refuses "is empty: the process ended" "$WORK/t/trace.2"

# One link of an emulated cluster has a third of the others' rate.
CLUSTER="$HERE/../../perf/emulated_cluster"
slow_link() {
  rm -f "$WORK"/t/*
  (unset BPS_SOCKET_IFNAME BPS_TIMEOUT BPS_KEY_FILE BPS_SERVERS
   "$CLUSTER" --build "$BUILD" -n 4 -k 1 -r 200M --unequal 1,1,0.33,1/1 -b 2M --iters 5 > "$WORK/out" 2> "$WORK/err")
}
# On a machine that is busy with other work, the links may not be the limit. So there are three tries.
for try in 1 2 3; do
  slow_link
  status=$?
  [ $status = 77 ] && { echo "(a slow link: skipped: $(tail -n 1 "$WORK/err"))"; exit 0; }
  [ $status = 0 ] || fail "a slow link: status $status: $(cat "$WORK/err")"
  report "a slow link"
  sed -n 3p "$WORK/report" | grep -qE "network: [0-9]+ % of it to and from rank 2, whose link is slower" &&
    grep -qE "the link of rank 2 as fast as the others: [2-3]\.[0-9]+ x" "$WORK/report" && break
  [ $try = 3 ] && fail "a slow link: $(cat "$WORK/report")"
done
[ -z "${KEEP:-}" ] || cp "$WORK/report" "$WORK"/t/* "$KEEP"
exit 0

#!/usr/bin/env bash
# perf/emulated_cluster --timeline: the parser and the gaps on made-up packets (timeline.py), wrong options, and the
# trace of a run: what every NIC carried is what the plan needs. Usage: timeline.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_SOCKET_IFNAME BPS_TIMEOUT BPS_KEY_FILE
command -v python3 >/dev/null || skip "no python3"
export PYTHONDONTWRITEBYTECODE=1
CLUSTER="$(dirname "$0")/../../perf/emulated_cluster"

python3 "$(dirname "$0")/timeline.py" > "$WORK/unit" 2>&1 || fail "timeline.py: $(cat "$WORK/unit")"

# refuses OPTION...: --timeline accepts one size and one number of servers only.
refuses() {
  "$CLUSTER" --build "$BUILD" -n 2 -r 200M "$@" --timeline "$WORK/trace" > "$WORK/out" 2> "$WORK/err"
  local status=$?
  [ $status = 2 ] && [ "$(wc -l < "$WORK/err")" = 1 ] && grep -q "needs -b with one size and -k with one" "$WORK/err" ||
    fail "$*: status $status, $(cat "$WORK/err")"
}
refuses -k 0,1 -b 1M
refuses -k 1 -b 1M,2M
refuses -k 1 --model resnet50

# traced NICS OPTION...: the trace of a run has this many NICs, and each direction of each carried the planned bytes.
traced() {
  local nics=$1 status; shift
  "$CLUSTER" --build "$BUILD" -n 2 -r 200M --iters 5 "$@" --timeline "$WORK/trace" --json "$WORK/result" \
    > "$WORK/out" 2> "$WORK/err"
  status=$?
  [ $status = 77 ] && skip "$(tail -n 1 "$WORK/err")"
  [ $status = 0 ] || fail "$*: status $status: $(cat "$WORK/err")"
  [ "$(grep -cE "^# timeline: [a-z]+[01]( eth[01])? (send|receive): busy .* gaps" "$WORK/out")" = $((2 * nics)) ] ||
    fail "$*: not a line for each NIC and direction: $(cat "$WORK/out")"
  grep -q "^# timeline: the capture lost" "$WORK/out" && fail "$*: $(cat "$WORK/out")"
  python3 - "$WORK/trace" "$WORK/result" <<'PYTHON' || fail "$*: $(cat "$WORK/out")"
import json, re, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
row = json.load(open(sys.argv[2]))["rows"][0]
hosts = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
threads = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
shown = [event for event in events if event["ph"] == "X"]
for place in threads:  # events of a thread do not overlap
    here = [event for event in shown if (event["pid"], event["tid"]) == place]
    spans = sorted((event["ts"], event["ts"] + event["dur"]) for event in here)
    if not spans or any(first[1] > second[0] + 0.01 for first, second in zip(spans, spans[1:])):
        sys.exit(f"{hosts[place[0]]}, {threads[place]}: no events, or events that overlap")
calls = sorted({int(found[1]) for event in shown if (found := re.match("push call ([0-9]+) chunk 0 ", event["name"]))})
with_payload = [call for call in calls if sum(
    event["args"]["bytes"] for event in shown if f"push call {call} " in event["name"]) > row["bytes"]]
answers = [event for event in shown if re.match("answer call [0-9]+ chunk 1 from server0$", event["name"])]
if len(with_payload) != 2 or not answers:
    sys.exit(f"not two calls with names: {calls}")
names = "|".join(map(str, with_payload))
nics = sorted((tid, pid) for pid, tid in threads if tid % 2 == 1)
for nic, (tid, pid) in enumerate(nics):
    for way, thread in (("send", tid), ("receive", tid + 1)):
        carried = sum(event["args"]["bytes"] for event in shown if (event["pid"], event["tid"]) == (pid, thread)
                      and re.match(f"(push|answer) call ({names}) ", event["name"]))
        percent = 100 * carried / (2 * row["plan_traffic"][nic])
        if not 99.9 < percent < 103:
            sys.exit(f"{hosts[pid]}, {threads[pid, thread]}: {percent:.2f} % of the plan's bytes")
PYTHON
}
traced 3 -k 1 -b 1M
traced 5 -k 1 -b 2M --nics 1,0.5
NCCL_NSOCKS_PERTHREAD=2 traced 3 -k 1 -b 8M

#!/usr/bin/env bash
# The metrics of ranks (BPS_METRICS): Prometheus' rules, counters that equal what a job did, the loss of a server, a
# failed communicator, the ports of several ranks per machine, a port that is taken, and values that bps refuses.
BUILD=$1; . "$(dirname "$0")/lib.sh"
command -v python3 > /dev/null || skip "no python3"
HERE=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=$HERE BPS_TIMEOUT=20 BPS_SERVER_TIMEOUT=10  # a busy machine loses no server but the killed one
perf=$BIN/bps-perf

# check NAME=VALUE...: runs the Python program on standard input.
check() { env "$@" python3 - || fail "$* $(tail -qn 3 "$WORK"/rank*.err)"; }
# metrics_of RANK: the address that the rank has logged.
metrics_of() { sed -n "s/.*rank $1: metrics on //p" "$WORK/rank$1.err" | tail -n 1; }
has_metrics() { [ -n "$(metrics_of "$1")" ]; }
end_ranks() { for pid in "${RANK_PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done; }

# Three ranks and two servers. A program makes calls while standard input has lines: a line "N BYTES".
cat > "$WORK/calls.py" << 'PY'
import ctypes, os, sys, time
bps = ctypes.CDLL(sys.argv[1])
bps.bpsGetLastError.restype = ctypes.c_char_p
comm, done = ctypes.c_void_p(), 0
def check(result, of):
    if result:
        print(f"{bps.bpsGetLastError(of).decode()}", flush=True)
        time.sleep(60)  # until it is killed: a failed communicator stays open
check(bps.bpsCommInitFromEnv(ctypes.byref(comm)), None)
print("ready", flush=True)
while True:
    try: count, size = map(int, open(sys.argv[2]).read().split())
    except (FileNotFoundError, ValueError): count = 0
    if count <= done:
        time.sleep(.02)
        continue
    send, recv = (ctypes.c_float * (size // 4))(), (ctypes.c_float * (size // 4))()
    while done < count:
        check(bps.bpsAllReduce(send, recv, ctypes.c_size_t(size // 4), 7, 0, comm, None), comm)
        check(bps.bpsHostStreamSynchronize(None), comm)
        done += 1
    print(f"done {done}", flush=True)
PY
start_server a; a=$SERVER_PID; servers=$SERVER_ADDRESS
start_server b; servers+=,$SERVER_ADDRESS
export BPS_SERVERS=$servers BPS_REQUIRE_SERVERS=1
BPS_METRICS=127.0.0.1:0 BPS_DEBUG=INFO start_ranks 3 python3 "$WORK/calls.py" "$BUILD/lib/libbps.so" "$WORK/calls"
for r in 0 1 2; do wait_for 30 grep -qs ready "$WORK/rank$r.out" || fail "rank $r does not start: $(cat "$WORK/rank$r.err")"; done
for r in 0 1 2; do wait_for 5 has_metrics $r || fail "rank $r has no metrics: $(cat "$WORK/rank$r.err")"; done
RANKS="$(metrics_of 0) $(metrics_of 1) $(metrics_of 2)"
for pid in "${RANK_PIDS[@]}"; do
  grep -qx bps-metrics "/proc/$pid/task"/*/comm || fail "no thread is called bps-metrics"
done

# make_calls N BYTES: all ranks make calls until they have made N.
make_calls() {
  echo "$1 $2" > "$WORK/new" && mv "$WORK/new" "$WORK/calls"
  local r
  for r in 0 1 2; do wait_for 30 grep -qsx "done $1" "$WORK/rank$r.out" || fail "rank $r: $(tail -qn 3 "$WORK/rank$r.out" "$WORK/rank$r.err")"; done
}

# The calls that measured the network do not count.
check RANKS="$RANKS" << 'PY'
import os
import prometheus as p
jobs = set()
for rank, where in enumerate(os.environ["RANKS"].split()):
    page = p.scrape(where)
    for name in ("calls_begun", "calls_completed", "calls_failed", "reduced_bytes", "call_seconds"):
        assert p.value(page, f"bps_rank_{name}_total") == 0, name
    assert p.value(page, "bps_rank_communicators") == 1 and p.value(page, "bps_rank_failed_communicators") == 0
    [(labels, one)] = page["bps_rank_info"][1].items()
    info = dict(labels)
    assert one == 1 and info["rank"] == info["machine"] == str(rank) and info["ranks"] == "3", info
    jobs.add(info["job"])
    assert p.value(page, "bps_rank_servers", job=info["job"], rank=str(rank)) == 2
    assert {dict(key)["change"]: value for key, value in page["bps_rank_server_changes_total"][1].items()} == \
        {"lost": 0, "joined": 0, "left": 0, "rate": 0}
    assert list(page["bps_build_info"][1].values()) == [1]
    assert p.fetch(where, "/healthz") == p.fetch(where, "/readyz") == "ok\n"
assert len(jobs) == 1
PY

make_calls 12 4194304
check RANKS="$RANKS" << 'PY'
import os
import prometheus as p
sent = received = 0
for rank, where in enumerate(os.environ["RANKS"].split()):
    page = p.scrape(where)
    assert p.value(page, "bps_rank_calls_begun_total") == p.value(page, "bps_rank_calls_completed_total") == 12
    assert p.value(page, "bps_rank_calls_failed_total") == p.value(page, "bps_rank_calls_in_flight") == 0
    assert p.value(page, "bps_rank_reduced_bytes_total") == 12 * 4194304
    assert 0 < p.value(page, "bps_rank_call_seconds_total") < 60
    # Every rank sends its contribution to all shares but its own, and the sums of its share.
    assert p.value(page, "bps_rank_sent_bytes_total") > 12 * 4194304 * .5, page["bps_rank_sent_bytes_total"]
    assert p.value(page, "bps_rank_received_bytes_total") > 12 * 4194304 * .5, page["bps_rank_received_bytes_total"]
    assert p.value(page, "bps_rank_sent_messages_total") > 12
    p.check_later(page, p.scrape(where))
PY

# The loss of a server: all ranks count it, and the calls go on.
kill -KILL "$a"
make_calls 20 4194304
check RANKS="$RANKS" << 'PY'
import os, time
import prometheus as p
until = time.time() + 15
for rank, where in enumerate(os.environ["RANKS"].split()):
    while True:
        page = p.scrape(where)
        if p.value(page, "bps_rank_server_changes_total", change="lost") == 1: break
        assert time.time() < until, f"rank {rank} does not count the loss: {page['bps_rank_server_changes_total']}"
        time.sleep(.1)
    assert list(page["bps_rank_servers"][1].values()) == [1], page["bps_rank_servers"]
    assert p.value(page, "bps_rank_calls_completed_total") == 20 and p.value(page, "bps_rank_calls_failed_total") == 0
    assert p.fetch(where, "/healthz") == "ok\n"
PY

# A late rank: the rounds that the others sum wait for it.
waits() { python3 -c 'import sys, prometheus as p
waits = {dict(key)["for_rank"]: value for key, value in p.scrape(sys.argv[1])["bps_rank_wait_seconds_total"][1].items()}
assert set(waits) == {"0", "1", "2"}, waits
print(waits["1"], waits["2"])' "$(metrics_of 0)" || fail "no waits"; }
BEFORE=$(waits)
kill -STOP "${RANK_PIDS[1]}"
echo "21 4194304" > "$WORK/new" && mv "$WORK/new" "$WORK/calls"
sleep 1.2
kill -CONT "${RANK_PIDS[1]}"
make_calls 21 4194304
sleep 1  # the waits on the page may be a second old
awk -v before="$BEFORE" -v after="$(waits)" 'BEGIN {
  split(before, b); split(after, a)
  exit !(a[1] - b[1] > .8 && a[1] - b[1] > a[2] - b[2]) }' || fail "waits for ranks 1 and 2: $BEFORE, later $(waits)"

# Dashboards and alerts.
python3 "$HERE/metric_names.py" "$HERE/../../packaging" "$(metrics_of 0)" rank || fail "dashboards or alerts"

# The death of a rank fails the call of the others and their communicator. The pages stay.
kill -KILL "${RANK_PIDS[2]}"
echo "22 4194304" > "$WORK/new" && mv "$WORK/new" "$WORK/calls"
check RANKS="$(metrics_of 0) $(metrics_of 1)" << 'PY'
import os, time, urllib.error
import prometheus as p
until = time.time() + 20
for where in os.environ["RANKS"].split():
    while p.value(p.scrape(where), "bps_rank_failed_communicators") == 0:
        assert time.time() < until, "no communicator has failed"
        time.sleep(.1)
    try: raise SystemExit("a failed communicator is healthy: " + p.fetch(where, "/healthz"))
    except urllib.error.HTTPError as error: assert error.code == 503 and b"rank 2" in error.read()
    page = p.scrape(where)
    assert p.value(page, "bps_rank_calls_failed_total") == p.value(page, "bps_rank_calls_begun_total") - 21 <= 1, page
PY
end_ranks
unset BPS_SERVERS BPS_REQUIRE_SERVERS

# Two ranks of one machine: the second one adds 1 to the port. A port that is taken costs the metrics, not the job.
port=$(python3 - << 'PY'
import socket
while True:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        port = first.getsockname()[1]
        try: second.bind(("127.0.0.1", port + 1))
        except (OSError, OverflowError): continue
        print(port)
        break
PY
)
rm -f "$WORK/calls"
RANKS_PER_MACHINE=2 BPS_METRICS=127.0.0.1:$port BPS_DEBUG=INFO start_ranks 2 python3 "$WORK/calls.py" "$BUILD/lib/libbps.so" "$WORK/calls"
for r in 0 1; do wait_for 30 grep -qs ready "$WORK/rank$r.out" || fail "rank $r does not start: $(cat "$WORK/rank$r.err")"; done
check PORT="$port" << 'PY'
import os
import prometheus as p
for rank in range(2):
    page = p.scrape(f"127.0.0.1:{int(os.environ['PORT']) + rank}")
    [labels] = page["bps_rank_info"][1]
    assert dict(labels)["rank"] == str(rank), labels
PY
BPS_METRICS=127.0.0.1:$port timeout 60 "$BIN/bps-run" -n 1 -- "$perf" -b 1K -e 1K -n 2 -w 0 > "$WORK/out" 2>&1 ||
  fail "a port that is taken ends the job: $(cat "$WORK/out")"
[ "$(grep -c "WARN.*BPS_METRICS=127.0.0.1:$port: .*127.0.0.1:$port.*in use; rank 0 goes on without metrics" "$WORK/out")" = 1 ] ||
  fail "the port that is taken is not named: $(cat "$WORK/out")"
end_ranks

# Values that bps refuses.
for bad in 9400 :9400 127.0.0.1 127.0.0.1:port 127.0.0.1:70000 nowhere:9400 "[::1:9400"; do
  BPS_METRICS=$bad timeout 60 "$BIN/bps-run" -n 1 -- "$perf" -b 1K -e 1K -n 1 > "$WORK/out" 2>&1 && fail "$bad is accepted"
  grep -qF "BPS_METRICS=$bad: " "$WORK/out" && grep -q 'accepts ADDR:PORT' "$WORK/out" || fail "$bad is not named: $(cat "$WORK/out")"
done
BPS_METRICS= timeout 60 "$BIN/bps-run" -n 1 -- "$perf" -b 1K -e 1K -n 1 -w 0 > "$WORK/out" 2>&1 || fail "empty: $(cat "$WORK/out")"
exit 0

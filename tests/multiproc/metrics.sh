#!/usr/bin/env bash
# The metrics of bps-server: Prometheus' rules, counters that equal what a job did, waits for a late rank, refusals by
# reason, the probes, and that dashboard and alerts use only metrics that exist.
BUILD=$1; . "$(dirname "$0")/lib.sh"
command -v python3 > /dev/null || skip "no python3"
HERE=$(cd "$(dirname "$0")" && pwd)

"$BIN/bps-server" --listen 127.0.0.1:0 --metrics 127.0.0.1:0 > "$WORK/server.out" 2> "$WORK/server.err" &
server=$!; PIDS+=("$server")
wait_for 10 grep -q '^listening on' "$WORK/server.out" || fail "does not listen: $(cat "$WORK/server.err")"
METRICS=$(sed -n 's/^metrics on //p' "$WORK/server.out")
BPS_SERVERS=$(sed -n 's/^listening on //p' "$WORK/server.out")
export BPS_SERVERS METRICS BPS_REQUIRE_SERVERS=1 PYTHONPATH=$HERE

# check: runs the Python program on standard input with the server's metrics.
check() { python3 - "$@" || fail "$* $(tail -n 3 "$WORK/server.err")"; }

check << 'PY'
import os, urllib.request
import prometheus as p
page = p.scrape(os.environ["METRICS"])
assert p.value(page, "bps_jobs") == 0 and p.value(page, "bps_draining") == 0
assert page["bps_build_info"][1] and list(page["bps_build_info"][1].values()) == [1]
assert p.fetch(os.environ["METRICS"], "/healthz") == p.fetch(os.environ["METRICS"], "/readyz") == "ok\n"
head = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
    urllib.request.Request(f"http://{os.environ['METRICS']}/metrics", method="HEAD"), timeout=10)
assert head.status == 200 and head.read() == b"" and int(head.headers["Content-Length"]) > 1000
for text in ("a 1\n", "# HELP a_total x\n# TYPE a_total gauge\na_total 1\n", "# HELP a x\n# TYPE a gauge\na 1\na 1\n",
             '# HELP a x\n# TYPE a gauge\na{b="\\q"} 1\n', "# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n"):
    try: p.parse(text)
    except p.Wrong: continue
    raise SystemExit(f"the parser accepts {text!r}")
PY

# A job whose rank 1 makes its second call late, so that the server waits for it. Counters only grow.
cat > "$WORK/late.py" << 'PY'
import ctypes, os, sys, time
bps = ctypes.CDLL(sys.argv[1])
comm, send, recv = ctypes.c_void_p(), (ctypes.c_float * 262144)(), (ctypes.c_float * 262144)()
bps.bpsGetLastError.restype = ctypes.c_char_p
def check(result, of):
    if result: sys.exit(f"{bps.bpsGetLastError(of).decode()}")
check(bps.bpsCommInitFromEnv(ctypes.byref(comm)), None)
for call in range(2):
    while call == 1 and os.environ["BPS_RANK"] == "1": time.sleep(1)  # until it is killed
    check(bps.bpsAllReduce(send, recv, ctypes.c_size_t(len(send)), 7, 0, comm, None), comm)
    print("started", flush=True)
check(bps.bpsHostStreamSynchronize(None), comm)
PY
start_ranks 3 python3 "$WORK/late.py" "$BUILD/lib/libbps.so"
for r in 0 1 2; do wait_for 30 grep -qs started "$WORK/rank$r.out" || fail "rank $r does not start: $(cat "$WORK/rank$r.err")"; done
check << 'PY'
import os, time
import prometheus as p
where = os.environ["METRICS"]
before = p.scrape(where)
for _ in range(10):
    time.sleep(.12)
    after = p.scrape(where)
    p.check_later(before, after)
    last, before = before, after
assert p.value(after, "bps_jobs") == 1 and p.value(after, "bps_machines") == p.value(after, "bps_ranks") == 3
[job] = {dict(key)["job"] for key in after["bps_job_rounds_total"][1]}
waits = {dict(key)["rank"]: value for key, value in after["bps_job_wait_seconds_total"][1].items()}
assert set(waits) == {"0", "1", "2"}, waits
assert waits["1"] > .8 and waits["1"] > 3 * max(waits["0"], waits["2"]), waits
assert p.value(after, "bps_job_queued_contributions", job=job) > 0, "nothing is queued for rank 1"
for name in ("received_bytes", "sent_bytes", "summed_bytes", "rounds"):
    assert p.value(after, f"bps_{name}_total") == p.value(after, f"bps_job_{name}_total", job=job) > 0, name
PY
kill -STOP "${RANK_PIDS[@]:1}"  # if they left too, the server might see that all workers have left instead of a dead hub
kill -KILL "${RANK_PIDS[0]}"

# All calls of a job that ends have been received, summed and answered.
check << 'PY'
import os, time
import prometheus as p
until = time.time() + 10
while True:
    page = p.scrape(os.environ["METRICS"])
    if p.value(page, "bps_jobs") == 0: break
    assert time.time() < until, "the killed job stays open"
    time.sleep(.1)
assert p.value(page, "bps_jobs_begun_total") == p.value(page, "bps_jobs_failed_total") == 1, page["bps_jobs_failed_total"]
assert not page["bps_job_rounds_total"][1], "an ended job still has samples"
PY
for pid in "${RANK_PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
python3 - << 'PY' > "$WORK/before" || fail "no page"
import os, prometheus as p
page = p.scrape(os.environ["METRICS"])
print(*[int(p.value(page, f"bps_{n}_total")) for n in ("received_bytes", "sent_bytes", "summed_bytes", "rounds")])
PY
BPS_DEBUG=INFO "$BIN/bps-run" -n 2 -- "$BIN/bps-perf" -b 4M -e 4M -n 5 -w 1 -c 0 > "$WORK/job" 2>&1 || fail "$(tail -n 5 "$WORK/job")"
check "$(cat "$WORK/before")" << 'PY'
import os, sys, time
import prometheus as p
before = [int(word) for word in sys.argv[1].split()]
until = time.time() + 10
while True:
    page = p.scrape(os.environ["METRICS"])
    if p.value(page, "bps_jobs_completed_total") == 1 and p.value(page, "bps_jobs") == 0: break
    assert time.time() < until, "the job is not counted as complete"
    time.sleep(.1)
received, sent, summed, rounds = [
    int(p.value(page, f"bps_{n}_total")) - b
    for n, b in zip(("received_bytes", "sent_bytes", "summed_bytes", "rounds"), before)]
# Every contribution is received once, summed once and answered with as many bytes, by two machines.
assert received == sent == summed > 0 and received % 2 == 0, (received, sent, summed)
# The server owns a part of each of the calls, never more than all of them: six calls and those that measure the network.
assert 4 << 20 <= received <= 2 * 12 * (4 << 20), received
assert rounds >= 6 and p.value(page, "bps_queued_contributions") == p.value(page, "bps_unsent_sums") == 0
PY

# Refusals by reason.
head -c 32 /dev/urandom > "$WORK/other" && chmod 600 "$WORK/other"
"$BIN/bps-server" --status "$BPS_SERVERS" --key-file "$WORK/other" > "$WORK/out" 2>&1 && fail "another key is accepted"
exec 9<> "/dev/tcp/${BPS_SERVERS/:/\/}" && printf 'no Hello at all, but long enough for the header of a frame' >&9
check << 'PY'
import os, time
import prometheus as p
until = time.time() + 10
while True:
    refused = {dict(key)["reason"]: value for key, value in p.scrape(os.environ["METRICS"])["bps_connections_refused_total"][1].items()}
    if refused["wrong_key"] == 1 and refused["handshake"] == 1: break
    assert time.time() < until, refused
    time.sleep(.1)
PY
exec 9>&-

# Dashboards and alerts.
python3 "$HERE/metric_names.py" "$HERE/../../packaging" "$METRICS" server || fail "dashboards or alerts"

# A server that drains is alive, but not ready. A job keeps it from ending.
unset BPS_REQUIRE_SERVERS
start_ranks 2 "$BIN/bps-perf" -b 1M -e 1M -n 20 -N 0 -c 0
wait_for 30 in_loop 0 || fail "no job runs: $(tail -qn 5 "$WORK"/rank0.*)"
kill -STOP "${RANK_PIDS[@]}"
kill -TERM "$server"
check << 'PY'
import os, time, urllib.error
import prometheus as p
until = time.time() + 5
while True:
    try: p.fetch(os.environ["METRICS"], "/readyz")
    except urllib.error.HTTPError as error:
        assert error.code == 503 and b"draining" in error.read()
        break
    assert time.time() < until, "a draining server is ready"
    time.sleep(.05)
assert p.fetch(os.environ["METRICS"], "/healthz") == "ok\n"
assert p.value(p.scrape(os.environ["METRICS"]), "bps_draining") == 1
PY
kill -CONT "${RANK_PIDS[@]}"
wait_for 10 gone "$server" || fail "the server does not end"
for pid in "${RANK_PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
exit 0

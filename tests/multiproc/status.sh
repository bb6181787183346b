#!/usr/bin/env bash
# Calls that make no progress: warnings after 2, 4 and 8 s name the late rank; SIGUSR1 and bps-server --status print the
# calls in flight; a handler of the application stays; --status without a usable server is an error.
BUILD=$1; . "$(dirname "$0")/lib.sh"
command -v python3 > /dev/null || skip "no python3"
export BPS_TIMEOUT=4
cat > "$WORK/late.py" << 'PY'
import ctypes, os, signal, sys, time
library, count, go = sys.argv[1], int(sys.argv[2]), sys.argv[3]
rank = int(os.environ["BPS_RANK"])
def install(): signal.signal(signal.SIGUSR1, lambda *_: print("the application's handler", flush=True))
if os.environ.get("HANDLER") == "before" and rank == 0: install()
bps = ctypes.CDLL(library)
comm, send, recv = ctypes.c_void_p(), (ctypes.c_float * count)(), (ctypes.c_float * count)()
bps.bpsGetLastError.restype = ctypes.c_char_p
def check(result, of):
    if result: sys.exit(f"rank {rank}: {bps.bpsGetLastError(of).decode()}")
check(bps.bpsCommInitFromEnv(ctypes.byref(comm)), None)
if os.environ.get("HANDLER") == "after" and rank == 0: install()
print("started", flush=True)
while rank == 1 and not os.path.exists(go): time.sleep(.05)
for _ in range(3): check(bps.bpsAllReduce(send, recv, ctypes.c_size_t(count), 7, 0, comm, None), comm)
while bps.bpsHostStreamQuery(None) == 7: time.sleep(.05)  # bpsInProgress; lets Python run its handlers
check(bps.bpsHostStreamSynchronize(None), comm)
check(bps.bpsCommDestroy(comm), None)
PY

# start_job COUNT: starts three ranks. Rank 1 makes its calls after end_job.
start_job() {
  rm -f "$WORK/go"
  start_ranks 3 python3 "$WORK/late.py" "$BUILD/lib/libbps.so" "$1" "$WORK/go"
  for r in 0 1 2; do wait_for 30 grep -qs started "$WORK/rank$r.out" || fail "rank $r does not start: $(cat "$WORK/rank$r.err")"; done
}
end_job() {
  touch "$WORK/go"
  for r in 0 1 2; do wait "${RANK_PIDS[$r]}" || fail "rank $r: $(tail -n 5 "$WORK/rank$r.err")"; done
}
says() { wait_for "${3:-12}" grep -qE -- "$1" "$2" || fail "no line \"$1\" in: $(cat "$2")"; }
late='rank 1 \([^)]*\)'

start_server server; server=$SERVER_ADDRESS
export BPS_SERVERS=$SERVER_ADDRESS BPS_REQUIRE_SERVERS=1
start_job 262144

# The warnings of the ranks and of the server name the late rank and those that are done.
for seconds in 2 4 8; do
  says "WARN COLL job [0-9a-f]{16}: all-reduce #0 of 262144 float32, sum has made no progress for $seconds s; contribution missing from: $late; .*contribution arrived from: rank 2" "$WORK/rank0.err"
  says "no progress for $seconds s; contribution missing from: $late; .*contribution arrived from: rank 0" "$WORK/rank2.err"
  says "WARN SERVER job [0-9a-f]{16}: all-reduce #0 .* no progress for $seconds s; contribution missing from: $late; contribution arrived from: rank [02] .*, rank [02] " "$WORK/server.err"
done
[ "$(grep -c 'has made no progress' "$WORK/rank0.err")" = 3 ] || fail "not 3 warnings: $(cat "$WORK/rank0.err")"

# SIGUSR1 of ranks and of the server.
kill -USR1 "${RANK_PIDS[0]}" "${RANK_PIDS[1]}" "$SERVER_PID"
says 'state: job [0-9a-f]{16}, rank 0: calls in flight: 1, queued: 2; no progress for [0-9.]+ s' "$WORK/rank0.err" 3
says 'state:   all-reduce #0 of 262144 float32, sum: 1048576 bytes, 0 of [0-9]+ chunks complete' "$WORK/rank0.err" 3
says "state:   contributions from $late: [1-9][0-9]* missing" "$WORK/rank0.err" 3
says 'state:   contributions from rank 2 .*: all arrived' "$WORK/rank0.err" 3
says 'state:   sums from server .*: [1-9][0-9]* missing' "$WORK/rank0.err" 3
says 'state: job [0-9a-f]{16}, rank 1: calls in flight: 0, queued: 0$' "$WORK/rank1.err" 3
says 'state: jobs: 1' "$WORK/server.err" 3
says "state:   lane of $late: waits for [1-9][0-9]* contribution" "$WORK/server.err" 3
gone "$SERVER_PID" && fail "SIGUSR1 ended the server"

# --status, as text and as JSON. It does not disturb the job.
"$BIN/bps-server" --status "$server" > "$WORK/text" 2>&1 || fail "--status: $(cat "$WORK/text")"
says '^jobs: 1$' "$WORK/text" 0
says '^job [0-9a-f]{16}: serving, 3 ranks on 3 machines, open for [0-9.]+ s, [0-9]+ bytes summed, hub rank 0' "$WORK/text" 0
says '^  calls in flight: 1; no progress for [0-9.]+ s$' "$WORK/text" 0
says '^  all-reduce #0 of 262144 float32, sum: 1048576 bytes$' "$WORK/text" 0
says "^  lane of $late: waits for [1-9][0-9]* contribution" "$WORK/text" 0
says '^  lane of rank 2 .*: has contributed$' "$WORK/text" 0
"$BIN/bps-server" --status "$server" --json > "$WORK/json" || fail "--json: $(cat "$WORK/json")"
python3 -m json.tool "$WORK/json" > /dev/null || fail "no JSON: $(cat "$WORK/json")"
python3 - "$WORK/json" << 'PY' || fail "$(cat "$WORK/json")"
import json, sys
[job] = json.load(open(sys.argv[1]))["jobs"]
assert (job["state"], job["machines"], job["ranks"]) == ("serving", 3, 3)
assert job["age_s"] > job["no_progress_s"] > 8
assert [(call["number"], call["bytes"]) for call in job["calls"]] == [(0, 1048576)]
assert [lane["peer"][:6] for lane in job["lanes"] if lane["contributions_missing"]] == ["rank 1"]
assert len(job["lanes"]) == 3
PY
for _ in $(seq 20); do "$BIN/bps-server" --status "$server" > "$WORK/text" 2>&1 & done
for pid in $(jobs -rp); do case " ${PIDS[*]} " in *" $pid "*) ;; *) wait "$pid" || fail "many at once: $(cat "$WORK/text")" ;; esac; done
end_job
wait_for 5 grep -q 'ended after .* all its calls are complete' "$WORK/server.err" || fail "$(cat "$WORK/server.err")"
"$BIN/bps-server" --status "$server" > "$WORK/text" || fail "--status of an idle server"
says '^jobs: 0$' "$WORK/text" 0

# A handler of the application stays, whether it was installed before or after bps started.
for handler in before after; do
  HANDLER=$handler start_job 1024
  kill -USR1 "${RANK_PIDS[0]}" "${RANK_PIDS[2]}"
  says "the application's handler" "$WORK/rank0.out" 3
  says 'state: job [0-9a-f]{16}, rank 2' "$WORK/rank2.err" 3
  grep -q 'state:' "$WORK/rank0.err" && fail "bps took the application's signal: $(cat "$WORK/rank0.err")"
  end_job
done

# Another signal, and none: then SIGUSR1 does what it does without bps.
BPS_DUMP_SIGNAL=usr2 start_job 1024
kill -USR2 "${RANK_PIDS[2]}"
says 'state: job [0-9a-f]{16}, rank 2' "$WORK/rank2.err" 3
end_job
unset BPS_SERVERS BPS_REQUIRE_SERVERS
BPS_DUMP_SIGNAL=none start_job 1024
kill -USR1 "${RANK_PIDS[2]}"
wait_for 5 gone "${RANK_PIDS[2]}" || fail "BPS_DUMP_SIGNAL=none, and SIGUSR1 does not end the rank"
for pid in "${RANK_PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done

# The ranks of one machine.
RANKS_PER_MACHINE=3 start_job 262144
says "no progress for 2 s; contribution missing from: $late; contribution arrived from: rank 2" "$WORK/rank0.err"
says "no progress for 2 s; contribution missing from: $late; contribution arrived from: rank 0" "$WORK/rank2.err"
end_job

# Errors have a message and status 1; errors of usage have another status than 0.
status_fails() { # PATTERN ARGUMENT...
  local pattern=$1; shift
  timeout 20 "$BIN/bps-server" "$@" > "$WORK/out" 2>&1 && fail "$*: status 0: $(cat "$WORK/out")"
  grep -qE -- "$pattern" "$WORK/out" || fail "$*: no \"$pattern\": $(cat "$WORK/out")"
}
"$BIN/bps-server" --make-key "$WORK/other"
status_fails "^bps-server: --status $server: .*the key differs" --status "$server" --key-file "$WORK/other"
closed=127.0.0.1:$(free_port)
status_fails "^bps-server: --status $closed: cannot connect to $closed: Connection refused" --status "$closed" --json
status_fails 'host "nowhere.invalid" cannot be found' --status nowhere.invalid:7700
status_fails '--status .*: .' --status ''
status_fails '--json' --json --listen 127.0.0.1:0
status_fails '--listen has no effect' --status "$server" --listen 127.0.0.1:0
kill -STOP "$SERVER_PID"
status_fails 'does not answer' --status "$server"
kill -CONT "$SERVER_PID"
exit 0

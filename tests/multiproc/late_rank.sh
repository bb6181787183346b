#!/usr/bin/env bash
# A rank that computes for many times BPS_TIMEOUT between two calls is no failure: not if all others wait for it, not if
# another job keeps the server busy, and not if the server is idle otherwise.
BUILD=$1; . "$(dirname "$0")/lib.sh"
command -v python3 > /dev/null || skip "no python3"
export BPS_TIMEOUT=1
cat > "$WORK/late.py" << 'PY'
import ctypes, os, sys, time
bps, count = ctypes.CDLL(sys.argv[1]), 1 << 18
comm, send, recv = ctypes.c_void_p(), (ctypes.c_float * count)(), (ctypes.c_float * count)()
rank, ranks = int(os.environ["BPS_RANK"]), int(os.environ["BPS_NRANKS"])
bps.bpsGetLastError.restype = ctypes.c_char_p
def check(result, of):
    if result: sys.exit(f"rank {rank}: {bps.bpsGetLastError(of).decode()}")
check(bps.bpsCommInitFromEnv(ctypes.byref(comm)), None)
for turn in range(3):
    if rank == 1 and turn > 0: time.sleep(5)
    for i in range(count): send[i] = rank + turn
    check(bps.bpsAllReduce(send, recv, ctypes.c_size_t(count), 7, 0, comm, None), comm)
    check(bps.bpsHostStreamSynchronize(None), comm)
    want = sum(range(ranks)) + ranks * turn
    assert all(value == want for value in recv), f"rank {rank}: {recv[0]}, not {want}"
check(bps.bpsCommDestroy(comm), None)
PY

"$BIN/bps-server" --listen 127.0.0.1:0 --threads 1 > "$WORK/server.out" 2> "$WORK/server.err" &
server=$!; PIDS+=("$server")
wait_for 10 grep -q '^listening on' "$WORK/server.out" || fail "the server does not listen: $(cat "$WORK/server.err")"
BPS_SERVERS=$(sed -n 's/^listening on //p' "$WORK/server.out"); export BPS_SERVERS BPS_REQUIRE_SERVERS=1

late() { # WHAT: runs the job with the late rank
  "$BIN/bps-run" -n 3 -- python3 "$WORK/late.py" "$BUILD/lib/libbps.so" > "$WORK/late.out" 2>&1 ||
    fail "$1: $(tail -n 8 "$WORK/late.out" "$WORK/server.err")"
}
late "the server is idle otherwise"
start_ranks 2 "$BIN/bps-perf" -b 1M -e 1M -n 50 -N 0 -c 0
wait_for 30 in_loop 0 || fail "the other job does not run: $(tail -qn 5 "$WORK"/rank0.*)"
late "another job keeps the server busy"
for pid in "${RANK_PIDS[@]}"; do ! gone "$pid" || fail "the other job ended: $(tail -qn 5 "$WORK"/rank?.*)"; done

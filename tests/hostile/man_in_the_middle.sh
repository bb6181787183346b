#!/usr/bin/env bash
# A process without the key on a server's port, or between a job and its server. If it only answers in the server's
# place, that server is excluded and nothing else changes. If it changes frames, the peers detect it and accept no
# forged frame. If it listens, it learns no token.
BUILD=$1; . "$(dirname "$0")/../multiproc/lib.sh"
HERE=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
export BPS_TIMEOUT=4 BPS_DIRECT_BYTES=0
python3 -c "import sys; sys.path.insert(0, '$HERE'); import sodium" || skip "no python3 with libsodium"

# between NAME COMMAND...: starts the program and sets ADDRESS and BETWEEN.
between() {
  rm -f "$WORK/between.out"
  python3 "$HERE/$1.py" "${@:2}" 60 > "$WORK/between.out" 2> "$WORK/between.err" &
  BETWEEN=$!; PIDS+=($!)
  wait_for 10 grep -q '^listening on' "$WORK/between.out" || fail "$1: $(cat "$WORK/between.err")"
  ADDRESS=$(sed -n 's/^listening on //p' "$WORK/between.out")
}
job() { timeout 30 "$BIN/bps-run" -v -n 2 -- "$BIN/bps-perf" -b 1M -e 1M -n "${1:-3}" -w 0 > "$WORK/job" 2>&1; }

start_server server
for how in refuse garbage close silent challenge welcome; do
  between impostor $how
  export BPS_SERVERS=$ADDRESS,$SERVER_ADDRESS
  job || fail "$how: exit $?: $(tail -n 5 "$WORK/job")"
  grep -q 'servers (k) 1' "$WORK/job" || fail "$how: the other server is not used: $(cat "$WORK/job")"
  grep -qE "WARN.*$ADDRESS" "$WORK/job" || fail "$how: no warning names $ADDRESS: $(cat "$WORK/job")"
  BPS_REQUIRE_SERVERS=1 job && fail "$how: exit 0, though the server was required"
  grep -qE "$ADDRESS.*BPS_REQUIRE_SERVERS" "$WORK/job" || fail "$how: $(tail -n 5 "$WORK/job")"
  kill "$BETWEEN"; wait "$BETWEEN" 2> /dev/null
  [ "$(sed -n 's/^met //p' "$WORK/between.out")" -ge 2 ] || fail "$how: no connection came: $(cat "$WORK/between.out")"
done

export BPS_REQUIRE_SERVERS=1
between relay pass "$SERVER_ADDRESS"
BPS_SERVERS=$ADDRESS job || fail "through a relay: exit $?: $(tail -n 5 "$WORK/job")"
grep -q 'servers (k) 1' "$WORK/job" || fail "through a relay: $(cat "$WORK/job")"
grep -q 'in clear' "$WORK/between.out" && fail "a relay can read the handles of data connections"
kill "$BETWEEN"; wait "$BETWEEN" 2> /dev/null
for mode in inject flip replay swap drop; do
  between relay $mode "$SERVER_ADDRESS"
  BPS_SERVERS=$ADDRESS job 100000000 && fail "$mode: exit 0"
  grep -q "did $mode" "$WORK/between.out" || fail "$mode: nothing happened: $(cat "$WORK/job")"
  grep -q 'forged by a relay' "$WORK/job" && fail "$mode: a forged frame was believed: $(cat "$WORK/job")"
  grep -q 'not authentic' "$WORK/job" || fail "$mode: not noticed: $(tail -n 5 "$WORK/job")"
  kill "$BETWEEN"; wait "$BETWEEN" 2> /dev/null
done
kill -TERM "$SERVER_PID"
wait "$SERVER_PID" || fail "the server: exit $?"

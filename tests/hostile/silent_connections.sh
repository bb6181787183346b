#!/usr/bin/env bash
# Many silent connections stay open to a server, and to rank 0 while a job starts. Every job that starts meanwhile uses
# the server, and no rank is kept out. 1,000 connections, with 10 jobs on the server and 3 starts; long version: 2,000,
# with 100 of each.
BUILD=$1; . "$(dirname "$0")/../multiproc/lib.sh"
HERE=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
COUNT=1000 JOBS=10 STARTS=3 SECONDS_MOST=120
[ "${BPS_TEST_LONG:-0}" = 1 ] && COUNT=2000 JOBS=100 STARTS=100 SECONDS_MOST=800
command -v python3 > /dev/null || skip "no python3"
ulimit -n "$(ulimit -Hn)"
[ "$(ulimit -n)" -gt $((COUNT + 200)) ] || skip "$(ulimit -n) descriptors, $((COUNT + 200)) are needed"
export BPS_REQUIRE_SERVERS=1  # an excluded server is an error

# hold TARGET: keeps connections open until unhold; returns once they are connected.
hold() {
  python3 "$HERE/silent_connections.py" "$1" $COUNT $SECONDS_MOST > "$WORK/silent.out" 2> "$WORK/silent.err" &
  HOLDER=$!; PIDS+=($!)
  wait_for 20 grep -q holding "$WORK/silent.out" || fail "no connections are held: $(cat "$WORK/silent.err")"
}
unhold() { kill "$HOLDER" && wait "$HOLDER" 2> /dev/null; }

# ends_well JOB: all ranks succeed.
ends_well() {
  local pid
  for pid in "${RANK_PIDS[@]}"; do
    wait_for 30 gone "$pid" || fail "job $1: a rank does not end: $(tail -qn 2 "$WORK"/rank*.err)"
    wait "$pid" || fail "job $1: exit $?: $(tail -qn 2 "$WORK"/rank*.out "$WORK"/rank*.err)"
  done
  grep -q '^# Out of bounds values : 0 OK' "$WORK/rank0.out" || fail "job $1: $(tail -n 3 "$WORK/rank0.out")"
}
perf=("$BIN/bps-perf" -b 64K -e 64K -n 3 -w 0)

start_server server
hold "$SERVER_ADDRESS"
started=$(now_ms)
for ((job = 1; job <= JOBS; job++)); do
  BPS_SERVERS=$SERVER_ADDRESS start_ranks 2 "${perf[@]}"
  ends_well $job
done
echo "  server: $JOBS of $JOBS jobs in $(( $(now_ms) - started )) ms, $(cat "$WORK/silent.out") of $COUNT connections"
lines=$(wc -l < "$WORK/server.err")
[ "$lines" -le $((JOBS * 4 + 200)) ] || fail "the server wrote $lines lines to its log"
kill -TERM "$SERVER_PID"
wait_for 5 gone "$SERVER_PID" || fail "SIGTERM does not end the server while connections are held"
wait "$SERVER_PID" || fail "the server: exit $?"
unhold

unset BPS_REQUIRE_SERVERS BPS_SERVERS
# rank NUMBER PORT: starts one of three ranks.
rank() {
  BPS_RANK=$1 BPS_NRANKS=3 BPS_ROOT=127.0.0.1:$2 BPS_HOSTID=machine$1 "${perf[@]}" > "$WORK/rank$1.out" 2> "$WORK/rank$1.err" &
  RANK_PIDS+=($!); PIDS+=($!)
}
started=$(now_ms)
for ((job = 1; job <= STARTS; job++)); do
  port=$(free_port)
  RANK_PIDS=()
  rank 0 "$port"
  hold "127.0.0.1:$port"
  rank 1 "$port"
  rank 2 "$port"
  ends_well $job
  unhold
done
echo "  BPS_ROOT: $STARTS of $STARTS jobs in $(( $(now_ms) - started )) ms"

#!/usr/bin/env bash
# Servers join and leave while calls run: a server that was killed comes back, one that was absent at the start joins,
# the file of BPS_SERVERS changes, and SIGTERM drains servers until none is left. Every call returns the right values.
# Usage: server_changes.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
export BPS_SERVER_TIMEOUT=1 BPS_DEBUG=INFO BPS_DEBUG_SUBSYS=INIT,COLL,SERVER
perf=$BIN/bps-perf

# serve NAME ADDRESS: starts a server at this address and sets PID[NAME].
declare -A PID ADDRESS
serve() {
  rm -f "$WORK/$1.out"
  "$BIN/bps-server" --listen "$2" > "$WORK/$1.out" 2> "$WORK/$1.err" &
  PID[$1]=$!; PIDS+=($!)
  wait_for 10 grep -sq '^listening on' "$WORK/$1.out" || fail "$1 does not listen: $(cat "$WORK/$1.err")"
  ADDRESS[$1]=$2
}
list() { local name text=""; for name; do text+=${text:+,}${ADDRESS[$name]}; done; echo "$text"; }
replace_list() { list "$@" | tr , '\n' > "$WORK/list.new"; mv "$WORK/list.new" "$WORK/list"; }

count() { grep -cE -- "$1" "$WORK/rank$2.err"; }
at_least() { [ "$(count "$2" "$3")" -ge "$1" ]; }
rows() { grep -cE '^ +[0-9]+ +[0-9]+ ' "$WORK/rank0.out"; }
more_rows() { [ "$(rows)" -gt "$1" ]; }
# expect_on_all N PATTERN: every rank has logged the pattern N times, and calls go on.
expect_on_all() {
  local r
  for r in "${!RANK_PIDS[@]}"; do
    wait_for 8 at_least "$1" "$2" "$r" || fail "rank $r has not logged \"$2\" $1 times: $(tail -n 6 "$WORK/rank$r.err") $(threads "${RANK_PIDS[0]}")"
  done
  goes_on
}
goes_on() { wait_for 8 more_rows $(( $(rows) + 1 )) || fail "no calls any more: $(tail -qn 3 "$WORK"/rank*.err) $(threads "${RANK_PIDS[0]}")"; }

# job RANKS OPTION...: starts ranks that all-reduce for ever and check every result.
job() {
  local n=$1; shift
  start_ranks "$n" "$perf" -f 2 -n 3 -w 1 -c 1 -N 0 "$@"
  wait_for 20 in_loop 0 || fail "rank 0 does not start: $(tail -qn 3 "$WORK/rank0.out" "$WORK/rank0.err")"
}

# end_job WARNINGS: no value was wrong, no rank has ended, and the ranks have warned so often.
end_job() {
  local r wrong
  for r in "${!RANK_PIDS[@]}"; do
    gone "${RANK_PIDS[$r]}" && fail "rank $r has ended: $(tail -qn 5 "$WORK/rank$r.out" "$WORK/rank$r.err")"
  done
  wrong=$(awk '/^ +[0-9]+ +[0-9]+ / && NF >= 13 { if ($9 != 0 || $13 != 0) print; ++n } END { if (n < 3) print n " rows" }' "$WORK/rank0.out")
  [ -z "$wrong" ] || fail "wrong values: $wrong"
  [ "$(cat "$WORK"/rank*.err | grep -c ' WARN ')" = "$1" ] || fail "not $1 warnings: $(grep -h ' WARN ' "$WORK"/rank*.err)"
  kill -KILL "${RANK_PIDS[@]}" 2>/dev/null; wait "${RANK_PIDS[@]}" 2>/dev/null
}

# drain NAME: SIGTERM. The server process ends soon, with status 0 and without a warning.
drain() {
  kill -TERM "${PID[$1]}"
  wait_for 5 gone "${PID[$1]}" || fail "$1 does not end: $(tail -n 4 "$WORK/$1.err") $(tail -n 4 "$WORK/rank0.err")"
  wait "${PID[$1]}" || fail "$1: exit $?: $(cat "$WORK/$1.err")"
  ! grep ' WARN ' "$WORK/$1.err" || fail "$1 warns"
}

crash() { kill -KILL "${PID[$1]}"; wait "${PID[$1]}" 2>/dev/null; }
finished() { echo "  $1: $(( $(now_ms) - started )) ms"; started=$(now_ms); }
started=$(now_ms)

for name in a b c; do ADDRESS[$name]=127.0.0.1:$(free_port); done

# A server is killed and comes back twice, and one that was absent at the start joins.
serve a "${ADDRESS[a]}"
BPS_SERVERS=$(list a b) job 3 -b 256K -e 4M
crash a
expect_on_all 1 "server ${ADDRESS[a]} is lost, and the calls go on without it"
serve a "${ADDRESS[a]}"
expect_on_all 1 "server ${ADDRESS[a]} joins at call [0-9]+ since the start; 1 servers now"
serve b "${ADDRESS[b]}"
expect_on_all 1 "server ${ADDRESS[b]} joins at call [0-9]+ since the start; 2 servers now"
grep -q "server ${ADDRESS[b]} has joined" "$WORK/rank0.err" || fail "rank 0 does not log that b has joined"
crash a; crash b
expect_on_all 2 "server ${ADDRESS[a]} is lost|server ${ADDRESS[b]} is lost.*; 0 of 2 servers are left"
end_job 4 # the absent server at the start, and the three losses
finished "killed and restarted"

# SIGTERM drains the servers while calls run, two ranks per machine. With no server left, calls go on.
serve a "${ADDRESS[a]}"; serve b "${ADDRESS[b]}"
BPS_SERVERS=$(list a b) RANKS_PER_MACHINE=2 job 4 -b 64K -e 2M
drain a
expect_on_all 1 "server ${ADDRESS[a]} leaves at call [0-9]+ since the start; 1 servers now"
drain b
expect_on_all 1 "server ${ADDRESS[b]} leaves at call [0-9]+ since the start; 0 servers now"
serve b "${ADDRESS[b]}"
expect_on_all 1 "server ${ADDRESS[b]} joins at call [0-9]+ since the start; 1 servers now"
drain b
goes_on
end_job 0
finished "drained, two ranks per machine"

# The file of BPS_SERVERS: b replaces a in one step, then all are removed. Small calls.
serve a "${ADDRESS[a]}"; serve b "${ADDRESS[b]}"
replace_list a
BPS_SERVERS=@$WORK/list job 2 -b 8 -e 256K
replace_list b c
expect_on_all 1 "server ${ADDRESS[a]} leaves at call"
expect_on_all 1 "server ${ADDRESS[b]} joins at call"
serve c "${ADDRESS[c]}"
expect_on_all 1 "server ${ADDRESS[c]} joins at call [0-9]+ since the start; 2 servers now"
echo "no such server" > "$WORK/list"
wait_for 5 at_least 1 'WARN.*the list of servers stays as it is' 0 || fail "a wrong list is not named: $(tail -n 3 "$WORK/rank0.err")"
: > "$WORK/list"
expect_on_all 2 "leaves at call [0-9]+ since the start; [01] servers now"
for name in a b c; do drain "$name"; done # their part in the job has ended already
end_job 1
finished "changes of the file"

# A server drains while the job ends.
serve a "${ADDRESS[a]}"
BPS_SERVERS=$(list a) start_ranks 2 "$perf" -b 1M -e 1M -n 30 -w 0 -c 1 -N 3
wait_for 20 in_loop 0 || fail "rank 0 does not start: $(tail -qn 3 "$WORK/rank0.out" "$WORK/rank0.err")"
drain a
for r in 0 1; do
  wait_for 20 gone "${RANK_PIDS[$r]}" || fail "rank $r still runs: $(threads "${RANK_PIDS[$r]}")"
  wait "${RANK_PIDS[$r]}" || fail "rank $r: exit $?: $(tail -qn 5 "$WORK/rank$r.out" "$WORK/rank$r.err")"
done
grep -qE '^# Out of bounds values : 0 OK' "$WORK/rank0.out" || fail "values: $(tail -n 4 "$WORK/rank0.out")"
finished "drained at the end"
[ "$(segments)" -eq 0 ] || fail "segments remain in /dev/shm: $(ls /dev/shm)"

#!/usr/bin/env bash
# Servers die in the middle of calls, one after the other, until none is left. Every call of every rank returns the
# right values, and rank 0 warns of each loss. Usage: server_loss.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
export BPS_SERVER_TIMEOUT=1
perf=$BIN/bps-perf

# job RANKS OPTION...: starts three servers and the ranks, which check every result.
job() {
  local n=$1 name; shift
  servers=() list=""
  for name in a b c; do
    start_server "$name"; servers+=("$SERVER_PID"); list+=${list:+,}$SERVER_ADDRESS
  done
  BPS_SERVERS=$list start_ranks "$n" "$perf" "$@"
}

# ends_right LOSSES: all ranks end with right values, and rank 0 has warned of so many losses.
# Beside other programs a job may take minutes.
ends_right() {
  local r
  for r in "${!RANK_PIDS[@]}"; do
    wait_for 300 gone "${RANK_PIDS[$r]}" || fail "rank $r still runs: $(tail -qn 3 "$WORK/rank$r.err") $(threads "${RANK_PIDS[$r]}")"
    wait "${RANK_PIDS[$r]}" || fail "rank $r: exit $?: $(tail -qn 5 "$WORK/rank$r.out" "$WORK/rank$r.err")"
  done
  grep -qE '^# Out of bounds values : 0 OK' "$WORK/rank0.out" || fail "values: $(tail -n 4 "$WORK/rank0.out")"
  [ "$(grep -c 'is lost, and the calls go on without it' "$WORK/rank0.err")" = "$1" ] ||
    fail "not $1 warnings: $(cat "$WORK/rank0.err")"
}

# scene SIGNAL NAME OPTION...: the servers get the signal one after the other.
scene() {
  local signal=$1 name=$2 started; shift 2
  job "$@"
  wait_for 20 in_loop 0 || fail "rank 0 does not start: $(tail -qn 3 "$WORK/rank0.out" "$WORK/rank0.err")"
  started=$(now_ms)
  for pid in "${servers[@]}"; do
    sleep "0.$((RANDOM % 5))$((RANDOM % 10))"
    kill "-$signal" "$pid"
    [ "$signal" = STOP ] && sleep 1.2
  done
  ends_right 3
  echo "  $signal, $name: $(( $(now_ms) - started )) ms"
  kill -KILL "${servers[@]}" 2>/dev/null; wait "${servers[@]}" 2>/dev/null
}

scene KILL "in place" 3 -b 4M -e 64M -f 2 -n 12 -w 1 -c 1 -N 2
scene KILL "small calls" 4 -b 8 -e 256K -f 2 -n 300 -w 1 -c 1 -N 2
scene STOP "in place" 2 -b 1M -e 32M -f 2 -n 40 -w 1 -c 1 -N 2
RANKS_PER_MACHINE=2 scene KILL "two ranks per machine" 6 -b 1M -e 64M -f 2 -n 6 -w 1 -c 1 -N 2
[ "$(segments)" -eq 0 ] || fail "segments remain in /dev/shm: $(ls /dev/shm)"

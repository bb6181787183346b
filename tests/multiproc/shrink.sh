#!/usr/bin/env bash
# Ranks are killed in the middle of calls, also rank 0. The others shrink the communicator and make 100 right calls.
# Usage: shrink.sh BUILD. ROUNDS=20 repeats all scenes.
BUILD=$1; . "$(dirname "$0")/lib.sh"
export BPS_SERVER_TIMEOUT=2
ranks=$BUILD/tests/shrink_ranks

in_phase() {  # PHASE RANK...
  local r phase=$1; shift
  for r; do grep -qs "^phase $phase:" "$WORK/rank$r.out" || return 1; done
}

# scene NAME SERVERS JOBS RANKS VICTIMS...: the ranks of each VICTIMS, such as 0,2 in the numbers of the first
# communicator, die at the same time. Each server then has served so many JOBS.
scene() {
  local name=$1 k=$2 jobs=$3 n=$4 started alive=() lists=() servers=() list="" victims r i phase=0; shift 4
  for ((i = 0; i < k; i++)); do start_server "s$i"; servers+=("$SERVER_PID"); list+=${list:+,}$SERVER_ADDRESS; done
  # The lists for bpsCommShrink have the numbers of the communicator that shrinks.
  for ((r = 0; r < n; r++)); do alive+=("$r"); done
  for victims; do
    local next=() excluded=""
    for i in "${!alive[@]}"; do
      if [[ ,$victims, == *,${alive[$i]},* ]]; then excluded+=${excluded:+,}$i; else next+=("${alive[$i]}"); fi
    done
    alive=("${next[@]}") lists+=("$excluded")
  done
  BPS_SERVERS=$list start_ranks "$n" "$ranks" "${lists[@]}"
  started=$(now_ms)
  local all=("${!RANK_PIDS[@]}")
  for victims; do
    wait_for 30 in_phase "$phase" "${all[@]}" || fail "$name: phase $phase: $(tail -qn 3 "$WORK"/rank*.{out,err})"
    sleep ".0$((RANDOM % 10))"
    for r in ${victims//,/ }; do kill -KILL "${RANK_PIDS[$r]}"; done
    for r in ${victims//,/ }; do wait "${RANK_PIDS[$r]}" 2>/dev/null; done
    local next=()
    for r in "${all[@]}"; do [[ ,$victims, == *,$r,* ]] || next+=("$r"); done
    all=("${next[@]}") phase=$((phase + 1))
  done
  for r in "${alive[@]}"; do
    wait_for 60 gone "${RANK_PIDS[$r]}" || fail "$name: rank $r still runs: $(tail -qn 3 "$WORK/rank$r".*) $(threads "${RANK_PIDS[$r]}")"
    wait "${RANK_PIDS[$r]}" || fail "$name: rank $r: exit $?: $(tail -qn 5 "$WORK/rank$r".*)"
    grep -q '^100 right calls' "$WORK/rank$r.out" || fail "$name: rank $r: $(tail -n 3 "$WORK/rank$r.out")"
  done
  grep -q "^phase $phase: rank 0 of ${#alive[@]}$" "$WORK/rank${alive[0]}.out" ||
    fail "$name: the order of the ranks: $(cat "$WORK/rank${alive[0]}.out")"
  for ((i = 0; i < k; i++)); do
    ! gone "${servers[$i]}" || fail "$name: server $i ended: $(tail -n 3 "$WORK/s$i.err")"
    [ "$(grep -c 'job .* begins' "$WORK/s$i.err")" = "$jobs" ] || fail "$name: not $jobs jobs: $(cat "$WORK/s$i.err")"
    kill -KILL "${servers[$i]}"; wait "${servers[$i]}" 2>/dev/null
  done
  echo "  $name: $(( $(now_ms) - started )) ms; $(sed -n 's/^shrunken/shrunk/p' "$WORK/rank${alive[0]}.out" | tail -n 1)"
}

for ((round = 0; round < ${ROUNDS:-1}; round++)); do
  scene "rank 0 and another" 0 0 4 0,2
  scene "rank 0 and another, two servers" 2 2 4 0,2
  scene "a rank other than 0, one server" 1 2 3 2
  scene "one after the other" 0 0 4 1 0
  RANKS_PER_MACHINE=2 scene "two ranks per machine" 0 0 6 0,3
  RANKS_PER_MACHINE=2 scene "two ranks per machine, one server" 1 2 6 0,3
  RANKS_PER_MACHINE=2 scene "one machine remains" 1 1 4 0,1
  RANKS_PER_MACHINE=4 scene "ranks of one machine" 0 0 4 0
done
[ "$(segments)" -eq 0 ] || fail "segments remain in /dev/shm: $(ls /dev/shm)"

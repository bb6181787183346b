#!/usr/bin/env bash
# Asynchronous training goes on when ranks and servers are killed, stopped or asked to end: every element contains each
# push of a living rank exactly once, and each push of a dead rank in all parts of living owners or in none. A rank that
# goes on after a stop ends with an error. Usage: parameters.sh BUILD.
# ROUNDS=50 repeats all scenes.
BUILD=$1; . "$(dirname "$0")/lib.sh"
export BPS_SERVER_TIMEOUT=2 BPS_TIMEOUT=6
ranks=$BUILD/tests/param_ranks
pushes=${PUSHES:-60} pause=${PAUSE:-20000}

trains() { local r; for r; do grep -qs '^trains' "$WORK/rank$r.out" || return 1; done; }

# scene NAME SERVERS RANKS VICTIMS...: each victim is the number of a rank, tR for a rank that is stopped, sI for server I,
# or dI for a server that is asked to end (drain). They are lost one after the other.
scene() {
  local count=${COUNT:-400000} name=$1 k=$2 n=$3 list="" servers=() r i victim alive=" "; shift 3
  for ((i = 0; i < k; i++)); do start_server "s$i"; servers+=("$SERVER_PID"); list+=${list:+,}$SERVER_ADDRESS; done
  local started; started=$(now_ms)
  BPS_SERVERS=$list start_ranks "$n" "$ranks" "$count" "$pushes" "$pause"
  for ((r = 0; r < n; r++)); do alive+="$r "; done
  wait_for 30 trains $alive || fail "$name: start: $(tail -qn 3 "$WORK"/rank*.{out,err})"
  for victim; do
    sleep ".$((RANDOM % 5))$((RANDOM % 10))"
    r=${victim#[a-z]}
    case $victim in
      s*) kill -KILL "${servers[$r]}"; wait "${servers[$r]}" 2>/dev/null ;;
      d*) kill -TERM "${servers[$r]}"; wait "${servers[$r]}" || fail "$name: the server that was asked to end: status $?" ;;
      t*) kill -STOP "${RANK_PIDS[$r]}" ;;
      *) kill -KILL "${RANK_PIDS[$r]}"; wait "${RANK_PIDS[$r]}" 2>/dev/null ;;
    esac
    [[ $victim = [sd]* ]] || alive=${alive/ $r / }
  done
  for r in $alive; do
    wait_for 60 gone "${RANK_PIDS[$r]}" || fail "$name: rank $r still runs: $(tail -qn 5 "$WORK/rank$r".*)"
    wait "${RANK_PIDS[$r]}" || fail "$name: rank $r: exit $?: $(tail -qn 8 "$WORK/rank$r".*)"
    for i in $alive; do
      grep -q "^rank $i: $pushes to $pushes pushes" "$WORK/rank$r.out" || fail "$name: rank $r: $(cat "$WORK/rank$r.out")"
    done
    for victim; do
      [[ $victim = [sd]* ]] || [ "$k" -lt "$n" ] ||
        grep -qE "^rank ${victim#t}: ([0-9]+) to \1 pushes" "$WORK/rank$r.out" ||
        fail "$name: a part of a push of rank $victim: $(cat "$WORK/rank$r.out")"
    done
  done
  for victim; do
    [[ $victim = t* ]] || continue
    r=${victim#t}
    kill -CONT "${RANK_PIDS[$r]}"
    wait_for 20 gone "${RANK_PIDS[$r]}" || fail "$name: rank $r, which was stopped, still runs"
    wait "${RANK_PIDS[$r]}" && fail "$name: rank $r, which was stopped, ended without an error"
    grep -q "^p[a-z]*: .*: ." "$WORK/rank$r.out" || fail "$name: rank $r: $(cat "$WORK/rank$r.out")"
  done
  for r in $alive; do break; done
  echo "  $name: $(( $(now_ms) - started )) ms; $(grep -h '^pushes/s' "$WORK/rank$r.out"); $(for victim; do grep -h "^rank ${victim#t}:" "$WORK/rank$r.out"; done)"
  for ((i = 0; i < k; i++)); do kill -KILL "${servers[$i]}" 2>/dev/null; wait "${servers[$i]}" 2>/dev/null; done
  return 0
}

for ((round = 0; round < ${ROUNDS:-1}; round++)); do
  scene "nobody dies" 1 3
  scene "a rank, as many servers as ranks" 4 4 2
  scene "a rank, no servers" 0 4 2
  scene "a rank, two servers" 2 4 1
  scene "a server" 2 3 s0
  scene "a server that is asked to end" 2 3 d1
  scene "a stopped rank" 3 3 t1
  scene "a server, and then a rank" 4 4 d0 2
  BPS_STALENESS=0 scene "a server, in step" 2 3 s0
  BPS_STALENESS=2 COUNT=2000000 scene "a server, at most 2 pushes ahead" 2 3 s1
  BPS_STALENESS=0 COUNT=2000000 scene "a stopped rank, in step" 3 3 t2
  BPS_STALENESS=1 scene "a rank, at most 1 push ahead" 0 4 3
  scene "rank 0" 0 3 0
  scene "rank 0, and then a server" 2 3 0 s1
  scene "rank 0 is stopped" 2 3 t0
  scene "rank 0, and another one" 2 4 0 3
done

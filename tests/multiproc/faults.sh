#!/usr/bin/env bash
# kill -9 and SIGSTOP of a rank in a loop of 64 MiB calls. Every other rank ends within the time-out with an error that
# names the culprit. The servers remove the job, and no shared memory remains. For servers see server_loss.sh.
BUILD=$1; . "$(dirname "$0")/lib.sh"
ROUNDS=${ROUNDS:-2}
[ "${BPS_TEST_LONG:-0}" = 1 ] && ROUNDS=10
start_server stable; stable=$SERVER_PID; stable_address=$SERVER_ADDRESS
shm_before=$(segments)

# scene SIGNAL: sends the signal to a rank in the middle of the loop.
scene() {
  local signal=$1 victim name limit=$BPS_TIMEOUT started
  start_server victim
  BPS_SERVERS=$stable_address,$SERVER_ADDRESS start_ranks 3 "$BIN/bps-perf" -b 64M -e 64M -n 1 -w 0 -c 0 -N 0
  wait_for 20 in_loop 0 || fail "rank 0 does not start: $(tail -qn 3 "$WORK/rank0.out" "$WORK/rank0.err")"
  victim=${RANK_PIDS[$((RANDOM % 2 + 1))]}
  [ "$victim" = "${RANK_PIDS[1]}" ] && name="rank 1 \\(" || name="rank 2 \\("
  kill "-$signal" "$victim"
  started=$(now_ms)
  for r in 0 1 2; do
    [ "${RANK_PIDS[$r]}" = "$victim" ] && continue
    ends_with_error "$r" "$name" $((limit + 1))
  done
  echo "  $signal: all others ended after $(( $(now_ms) - started )) ms naming it"
  kill -CONT "$victim" 2>/dev/null; kill -KILL "$victim" "$SERVER_PID" 2>/dev/null
  wait "$victim" 2>/dev/null
}

# Rank 0, which has the hub, stops for longer than the time-out and continues. All ranks, including rank 0, name it.
stopped_hub() {
  local hub
  start_ranks 3 "$BIN/bps-perf" -b 8M -e 8M -n 1 -w 0 -c 0 -N 0
  hub=${RANK_PIDS[0]}
  wait_for 20 in_loop 0 || fail "rank 0 does not start: $(tail -qn 3 "$WORK"/rank0.*)"
  kill -STOP "$hub"
  for r in 1 2; do ends_with_error "$r" 'rank 0 \(' $((BPS_TIMEOUT + 1)); done
  kill -CONT "$hub"
  ends_with_error 0 'rank 0 \(.*(was stopped for|has been silent for)' $((BPS_TIMEOUT + 1))
  echo "  STOP and CONT of rank 0: all name it"
}
stopped_hub

wait_idle() { [ "$(open_fds "$stable")" -le "$fds" ]; }
for ((i = 0; i < ROUNDS; i++)); do
  for signal in KILL STOP; do
    fds=$(open_fds "$stable")
    scene $signal
    wait_for 10 wait_idle || fail "the server keeps $(open_fds "$stable") descriptors, had $fds"
    gone "$stable" && fail "the server died: $(tail -qn 3 "$WORK/stable.err")"
  done
done
BPS_DIRECT_BYTES=1G scene KILL  # on the exchange path, in pieces
[ "$(segments)" -le "$shm_before" ] || fail "segments remain in /dev/shm: $(ls /dev/shm)"
kill -TERM "$stable"
wait "$stable" || fail "the other server: exit $? on SIGTERM"

#!/usr/bin/env bash
# Four hubs that hold the key misbehave (a flood, huge jobs, descriptors, a job that never sends) beside a valid job.
# Its results are right and its server keeps running. Long version: 10 minutes, and the median call takes less than 20 %
# longer.
BUILD=$1; . "$(dirname "$0")/lib.sh"
# Longer than the time after which a rank reports a silent server.
seconds=10
[ "${BPS_TEST_LONG:-0}" = 1 ] && seconds=600
start_server one; export BPS_REQUIRE_SERVERS=1

# run_job SECONDS: runs the job and ends it after so many seconds; MEDIAN is the median time of a call.
run_job() {
  BPS_SERVERS=$SERVER_ADDRESS start_ranks 2 "$BIN/bps-perf" -b 1M -e 1M -n 20 -N 0 -c 1
  wait_for 30 in_loop 0 || fail "the job does not start: $(tail -qn 5 "$WORK"/rank?.*)"
  for ((i = 0; i < $1; i++)); do
    sleep 1
    for r in 0 1; do ! gone "${RANK_PIDS[$r]}" || fail "rank $r ended: $(tail -qn 5 "$WORK"/rank?.* "$WORK/one.err")"; done
  done
  for pid in "${RANK_PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
  [ -z "$(awk '/^ +[0-9]+ +[0-9]+ / && $9 != 0' "$WORK/rank0.out")" ] || fail "wrong results: $(tail -n 5 "$WORK/rank0.out")"
  MEDIAN=$(awk '/^ +[0-9]+ +[0-9]+ / { print $6 }' "$WORK/rank0.out" | sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }')
}
run_job $((seconds < 60 ? 3 : 60)); alone=$MEDIAN
attackers=()
for how in flood huge descriptors never; do
  # They stand for other machines, so their computation must not take CPU time from the ranks.
  nice -n 19 "$BUILD/tests/hostile_hub" $how "$SERVER_ADDRESS" $((seconds + 20)) > "$WORK/$how.out" 2>&1 &
  attackers+=($!); PIDS+=($!)
done
sleep 1
run_job "$seconds"
for pid in "${attackers[@]}"; do ! gone "$pid" || fail "an attacker ended: $(tail -qn 2 "$WORK"/{flood,huge,descriptors,never}.out)"; done
for pid in "${attackers[@]}"; do kill -KILL "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; done
echo "median of a call of 1 MiB: $alone us alone, $MEDIAN us beside four hubs that misbehave"
if [ "${BPS_TEST_LONG:-0}" = 1 ]; then
  awk -v a="$alone" -v b="$MEDIAN" 'BEGIN { exit !(b < 1.2 * a) }' || fail "more than 20 % longer"
fi
# The server releases all resources of these hubs.
released() { [ "$(open_fds "$SERVER_PID")" -le 40 ]; }
wait_for 20 released || fail "$(open_fds "$SERVER_PID") descriptors are open"
kill -TERM "$SERVER_PID"; wait "$SERVER_PID" || fail "server exit $? on SIGTERM"

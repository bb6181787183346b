#!/usr/bin/env bash
# Two concurrent jobs on the same two servers give right results; the servers keep running and release the memory.
BUILD=$1; . "$(dirname "$0")/lib.sh"
start_server one; one=$SERVER_PID; list=$SERVER_ADDRESS
start_server two; two=$SERVER_PID; list+=,$SERVER_ADDRESS
export BPS_SERVERS=$list
job() { "$BIN/bps-run" -n 3 -- "$BIN/bps-perf" -b 1M -e 16M -f 4 -n 3 -d "$1" > "$WORK/job$1" 2>&1; }
job float || fail "first job: $(tail -qn 5 "$WORK/jobfloat")"   # fills the allocators' caches
released() { [ "$(rss_kb "$one")" -le "$1" ] && [ "$(rss_kb "$two")" -le "$2" ]; }
wait_for 5 released 60000 60000
before_one=$(rss_kb "$one"); before_two=$(rss_kb "$two"); fds=$(open_fds "$one")
for _ in 1 2; do
  job float & a=$!
  job half & b=$!
  wait $a || fail "float job: $(tail -qn 5 "$WORK/jobfloat")"
  wait $b || fail "half job: $(tail -qn 5 "$WORK/jobhalf")"
done
grep -q '^# Out of bounds values : 0 OK' "$WORK/jobfloat" && grep -q '^# Out of bounds values : 0 OK' "$WORK/jobhalf" ||
  fail "wrong values"
wait_for 5 released $((before_one * 11 / 10)) $((before_two * 11 / 10)) ||
  fail "memory: $before_one -> $(rss_kb "$one") KiB, $before_two -> $(rss_kb "$two") KiB"
same_fds() { [ "$(open_fds "$one")" -le "$fds" ]; }
wait_for 5 same_fds || fail "descriptors: $fds -> $(open_fds "$one")"
# The metrics page. The system chooses its port.
"$BIN/bps-server" --listen 127.0.0.1:0 --metrics 127.0.0.1:0 > "$WORK/three.out" 2> "$WORK/three.err" &
three=$!; PIDS+=("$three")
wait_for 10 grep -q '^listening on' "$WORK/three.out" || fail "the third does not listen: $(cat "$WORK/three.err")"
BPS_SERVERS=$(sed -n 's/^listening on //p' "$WORK/three.out") \
  "$BIN/bps-run" -n 2 -- "$BIN/bps-perf" -b 1M -e 1M -n 2 -c 0 > "$WORK/counted" 2>&1 || fail "$(tail -n 5 "$WORK/counted")"
metrics() { exec 9<> "/dev/tcp/$1" && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&9 && cat <&9; exec 9>&-; }
address=$(sed -n 's/^metrics on //p' "$WORK/three.out")
metrics "${address/:/\/}" > "$WORK/metrics" || fail "no metrics at \"$address\""
grep -qE '^bps_summed_bytes_total [1-9][0-9]{6,}\s*$' "$WORK/metrics" || fail "nothing was counted: $(cat "$WORK/metrics")"
kill -TERM "$one" "$two" "$three"
wait "$three" || fail "server exit $? on SIGTERM"
wait "$one" || fail "server exit $? on SIGTERM"
wait "$two" || fail "server exit $? on SIGTERM"

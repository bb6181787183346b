#!/usr/bin/env bash
# perf/disturbed_cluster: a server is killed, drained or cut off from one rank while a job runs. Every result is right,
# and the server joins again. Usage: disturbed_cluster.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_SOCKET_IFNAME BPS_TIMEOUT BPS_KEY_FILE
command -v python3 >/dev/null || skip "no python3"
for how in kill drain cut; do
  "$(dirname "$0")/../../perf/disturbed_cluster" --build "$BUILD" --how $how --rounds 1 -n 3 -k 2 -r 200M -b 4M \
    --within 1000 > "$WORK/out" 2>&1
  status=$?
  [ $status != 77 ] || skip "$(tail -n1 "$WORK/out")"
  [ $status = 0 ] || fail "$how: status $status: $(cat "$WORK/out")"
  grep -q "^# $how: 1 rounds, all results right" "$WORK/out" || fail "$how: $(cat "$WORK/out")"
done

#!/usr/bin/env bash
# An idle server uses no CPU: at most one tick in 5 s, or in 30 s in the long version.
BUILD=$1; . "$(dirname "$0")/lib.sh"
SECONDS_IDLE=5
[ "${BPS_TEST_LONG:-0}" = 1 ] && SECONDS_IDLE=30
start_server idle
measure() {
  local before after
  before=$(cpu_ticks "$SERVER_PID"); sleep $SECONDS_IDLE; after=$(cpu_ticks "$SERVER_PID")
  [ $((after - before)) -le 1 ] || fail "$1: $((after - before)) ticks of CPU in $SECONDS_IDLE s"
}
measure "no job"

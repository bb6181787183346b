#!/usr/bin/env bash
# A server with nothing to do uses no CPU: less than 0.1 % over half a minute (long) or a tick in five seconds.
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

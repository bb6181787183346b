#!/usr/bin/env bash
# A machine that vanishes without closing its connections is detected by the other one within BPS_TIMEOUT, both as
# sender and as receiver. Two network namespaces stand for the machines. The processes of the vanishing machine are
# stopped first, so that they detect nothing. Usage: unreachable_machine.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
plugin=$(realpath "$BUILD")/lib/libnccl-net-bps.so
check=$(realpath "$BUILD")/bin/net-plugin-check
[ -x "$check" ] || fail "net-plugin-check is not built"
one=bpscut-$$-a other=bpscut-$$-b
trap 'end; ip netns del $one 2>/dev/null; ip netns del $other 2>/dev/null' EXIT
network() {
  ip netns add $one && ip netns add $other &&
    ip -n $one link add eth0 type veth peer name eth0 netns $other &&
    ip -n $one addr add 10.78.0.1/24 dev eth0 && ip -n $other addr add 10.78.0.2/24 dev eth0
}
network > "$WORK/network" 2>&1 || skip "no network namespaces: $(tail -n 1 "$WORK/network")"

# More bytes have arrived than the check's trial sends, so both sides are in the middle of many messages.
flows() { ip netns exec $other ss -Htni state established | grep -qE 'bytes_received:[0-9]{9}'; }
# The child process of the check in that namespace.
side_in() {
  local pid
  for pid in $(pgrep -P "$(pgrep -P "$run")"); do
    if [ "/proc/$pid/ns/net" -ef "/run/netns/$1" ]; then echo "$pid"; fi
  done
}

# vanishes NAMESPACE PATTERN: the other side reports the pattern.
vanishes() {
  local stopped cut
  ip -n $one link set eth0 up && ip -n $other link set eth0 up || fail "the link does not come up"
  BPS_SOCKET_IFNAME=eth0 BPS_TIMEOUT=2 ip netns exec $other timeout 60 "$check" "$plugin" --bench 1 --only one-way \
    --bench-seconds 400 --timeout 40 --sender-netns /run/netns/$one > "$WORK/out" 2>&1 &
  run=$!
  PIDS+=("$run")
  wait_for 30 flows || fail "no messages: $(cat "$WORK/out")"
  stopped=$(side_in "$1")
  [ -n "$stopped" ] && kill -STOP "$stopped" || fail "no process in $1 of $(pgrep -aP "$(pgrep -P "$run")")"
  ip -n "$1" link set eth0 down
  cut=$SECONDS
  wait "$run" && fail "the failure was not detected: $(cat "$WORK/out")"
  [ $((SECONDS - cut)) -le 20 ] || fail "detected after $((SECONDS - cut)) s: $(cat "$WORK/out")"
  grep -qE "$2" "$WORK/out" || fail "not \"$2\": $(cat "$WORK/out")"
  echo "  $(cat "$WORK/out"), after $((SECONDS - cut)) s"
}
vanishes $one 'receiver: .*10.78.0.1:[0-9]+.*(timed out|No route to host|has not acknowledged any data)'
vanishes $other 'sender: .*10.78.0.2:[0-9]+ (has not acknowledged any data for 2 s|.*No route to host)'

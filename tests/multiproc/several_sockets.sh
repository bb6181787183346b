#!/usr/bin/env bash
# TCP connections of several sockets keep every rule that one socket keeps; --bench measures against plain sockets; and a
# peer that is cut off without a word is noticed. Usage: several_sockets.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
plugin=$(realpath "$BUILD")/lib/libnccl-net-bps.so
check=$(realpath "$BUILD")/bin/net-plugin-check
[ -x "$check" ] || fail "net-plugin-check is not built"
export NCCL_SHM_DISABLE=1

# with SOCKETS OPTION...
with() {
  NCCL_NSOCKS_PERTHREAD=$1 timeout 60 "$check" "$plugin" --cycles 30 --max-bytes 16M "${@:2}" > "$WORK/out" 2>&1 ||
    fail "$1 sockets: $(grep -vE '^(PASS|skip)' "$WORK/out" | tail -n 10)"
}
with 4
with 2 --only in-flight,order,large,oversize,close-when-sent,sender-closes,receiver-killed
NCCL_SOCKET_NTHREADS=2 NCCL_NSOCKS_PERTHREAD=2 timeout 60 "$check" "$plugin" --only init -v > "$WORK/out" 2>&1
grep -q '4 socket(s) per connection' "$WORK/out" || fail "NCCL's two variables: $(cat "$WORK/out")"
NCCL_NSOCKS_PERTHREAD=3 timeout 60 "$BUILD/tests/unit" --gtest_filter='Over/*/tcp:-*AThousand*' > "$WORK/out" 2>&1 ||
  fail "3 sockets: $(grep -E 'Failure|FAILED' "$WORK/out" | head -n 10)"

NCCL_NSOCKS_PERTHREAD=2 timeout 60 "$check" "$plugin" --bench 1 --bench-seconds 0.05 --raw-sockets 2 --json "$WORK/json" \
  > "$WORK/out" 2>&1 || fail "--bench: $(cat "$WORK/out")"
NCCL_SHM_DISABLE=0 timeout 60 "$check" "$plugin" --bench 1 --bench-seconds 0.05 --against memory >> "$WORK/out" 2>&1 ||
  fail "--bench --against memory: $(cat "$WORK/out")"
[ "$(grep -cE '^(round trip|one way|both ways).* [0-9.]+ \([0-9.]+-[0-9.]+\)$' "$WORK/out")" = 7 ] ||
  fail "not all lines: $(cat "$WORK/out")"
python3 -c 'import json, sys; assert all(line["ratio"][0] > 0 for line in json.load(open(sys.argv[1])))' "$WORK/json" ||
  fail "the JSON: $(cat "$WORK/json")"

# Two namespaces, and after a while neither knows the other's address any more: what is sent goes nowhere.
one=bpscut-$$-a other=bpscut-$$-b
trap 'end; ip netns del $one 2>/dev/null; ip netns del $other 2>/dev/null' EXIT
network() {
  ip netns add $one && ip netns add $other &&
    ip -n $one link add eth0 type veth peer name eth0 netns $other &&
    ip -n $one addr add 10.78.0.1/24 dev eth0 && ip -n $other addr add 10.78.0.2/24 dev eth0 &&
    ip -n $one link set eth0 up && ip -n $other link set eth0 up
}
network > "$WORK/network" 2>&1 || { echo "no network namespaces: the cut is not tested: $(tail -n 1 "$WORK/network")"; exit 0; }
BPS_SOCKET_IFNAME=eth0 BPS_TIMEOUT=2 ip netns exec $other timeout 60 "$check" "$plugin" --bench 1 --only one-way \
  --bench-seconds 30 --timeout 30 --sender-netns /run/netns/$one > "$WORK/out" 2>&1 &
run=$!
PIDS+=("$run")
flows() { ip netns exec $other ss -Htn state established | grep -q 10.78.0.1; }
wait_for 10 flows || fail "no connection: $(cat "$WORK/out")"
sleep 1
ip -n $one neigh replace 10.78.0.2 lladdr 02:00:00:00:00:99 nud permanent dev eth0
ip -n $other neigh replace 10.78.0.1 lladdr 02:00:00:00:00:99 nud permanent dev eth0
cut=$SECONDS
wait $run && fail "nothing was noticed: $(cat "$WORK/out")"
[ $((SECONDS - cut)) -le 15 ] || fail "noticed after $((SECONDS - cut)) s: $(cat "$WORK/out")"
grep -qE 'answers nothing for 2000 ms|timed out' "$WORK/out" || fail "not told why: $(cat "$WORK/out")"

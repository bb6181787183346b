#!/usr/bin/env bash
# TCP connections of several sockets follow every rule that one socket follows; --bench compares with plain sockets.
# Usage: multi_socket_connections.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
plugin=$(realpath "$BUILD")/lib/libnccl-net-bps.so
check=$(realpath "$BUILD")/bin/net-plugin-check
[ -x "$check" ] || fail "net-plugin-check is not built"
export NCCL_SHM_DISABLE=1

# with SOCKETS OPTION...: net-plugin-check passes with that many sockets.
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

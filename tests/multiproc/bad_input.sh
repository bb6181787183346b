#!/usr/bin/env bash
# Invalid options, variables, files and peers give a non-zero exit within the time-out and one line that names the
# cause.
BUILD=$1; . "$(dirname "$0")/lib.sh"
export BPS_TIMEOUT=3

# refuses PATTERN COMMAND...: the command fails in time and prints the pattern.
refuses() {
  local pattern=$1 started; shift
  started=$(now_ms)
  timeout 20 "$@" > "$WORK/out" 2>&1 && fail "exit 0: $*"
  local code=$? ms=$(( $(now_ms) - started ))
  [ $code -ne 124 ] && [ $ms -le 6000 ] || fail "took $ms ms: $*"
  local lines; lines=$(grep -cE -- "$pattern" "$WORK/out")
  [ "$lines" -ge 1 ] || fail "no line matches \"$pattern\": $* printed: $(tail -qn 5 "$WORK/out")"
}
# The same, and the output is exactly one line.
refuses_in_a_line() {
  refuses "$@"
  [ "$(wc -l < "$WORK/out")" = 1 ] || fail "more than one line: ${*:2} printed: $(cat "$WORK/out")"
}
perf=$BIN/bps-perf
for program in bps-doctor bps-perf bps-run bps-server bps-topo net-plugin-check; do
  [[ $("$BIN/$program" --version) =~ ^$program\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "$program --version says $("$BIN/$program" --version)"
  refuses_in_a_line "$program: .*--frobnicate" "$BIN/$program" --frobnicate
done
refuses 'banana' "$perf" -b banana
refuses 'frobnicate' "$perf" --frobnicate
refuses 'BPS_PARTITION_BYTES=-3.*4K to 1G' env BPS_PARTITION_BYTES=-3 "$perf" -b 8 -e 8
refuses 'BPS_TIMEOUT=soon' env BPS_TIMEOUT=soon "$perf" -b 8 -e 8
refuses 'no host' env BPS_SERVERS=:1 BPS_RANK=0 BPS_NRANKS=1 BPS_ROOT=127.0.0.1:$(free_port) "$perf" -b 8 -e 8
refuses 'host "nowhere"' env BPS_REQUIRE_SERVERS=1 BPS_SERVERS=nowhere:1 "$BIN/bps-run" -n 2 -- "$perf" -b 8 -e 8
BPS_SERVERS=nowhere:1 "$BIN/bps-run" -n 2 -- "$perf" -b 8 -e 8 -n 1 > "$WORK/out" 2>&1 ||
  fail "a server's name that is not found ends the job: $(tail -qn 5 "$WORK/out")"
grep -q 'server nowhere:1 is left out: host "nowhere" cannot be found' "$WORK/out" || fail "$(cat "$WORK/out")"
refuses '1 of 2 ranks.*missing: 1|rank 1' env BPS_RANK=0 BPS_NRANKS=2 BPS_ROOT=127.0.0.1:$(free_port) "$perf" -b 8 -e 8
refuses 'rank 0|127.0.0.1' env BPS_RANK=1 BPS_NRANKS=2 BPS_ROOT=127.0.0.1:$(free_port) "$perf" -b 8 -e 8
start_server first
refuses "cannot listen on $SERVER_ADDRESS.*in use" "$BIN/bps-server" --listen "$SERVER_ADDRESS"
refuses "cannot listen on $SERVER_ADDRESS.*in use" env BPS_RANK=0 BPS_NRANKS=2 BPS_ROOT="$SERVER_ADDRESS" "$perf" -b 8 -e 8
refuses '16' env -u BPS_KEY_FILE "$BIN/bps-server" --listen 127.0.0.1:0 --key-file /dev/null
refuses 'BPS_KEY_FILE' env -u BPS_KEY_FILE "$BIN/bps-server" --listen 127.0.0.1:0
for program in emulated_cluster compare_peers; do
  [[ $("perf/$program" --version) =~ ^$program\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "$program --version"
done
refuses_in_a_line "compare_peers: .*--frobnicate" perf/compare_peers --frobnicate
# Listening errors are one line with the option's name and a valid value.
server() { refuses_in_a_line "$1" "$BIN/bps-server" "${@:2}"; }
server "--listen 27720: a port alone; use ADDR:27720 .*or 0.0.0.0:27720" --listen 27720
server "--listen 192.0.2.77:7700: cannot listen.*; this machine has .*127.0.0.1:7700 on lo" --listen 192.0.2.77:7700
server "^bps-server: key file /nonexistent: No such file" --key-file /nonexistent
server "--listen lo: lo is an interface; use its address: 127.0.0.1:7700" --listen lo
server "--listen nowhere.invalid:1: .*cannot be found" --listen nowhere.invalid:1
server "--metrics 27720: a port alone; use ADDR:27720" --listen 127.0.0.1:0 --metrics 27720
server "--metrics $SERVER_ADDRESS: cannot listen.*in use" --listen 127.0.0.1:0 --metrics "$SERVER_ADDRESS"
refuses_in_a_line 'BPS_SOCKET_IFNAME.*"nosuch9" selects no interface.*available: lo' env BPS_SOCKET_IFNAME=nosuch9 "$BIN/bps-server"
if command -v setpriv > /dev/null && [ "$(id -u)" = 0 ] && [ "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)" -gt 80 ]; then
  refuses_in_a_line '--listen 127.0.0.1:80: cannot listen.*Permission denied; ports below 1024 need' \
    env BPS_AUTH=off setpriv --bounding-set -net_bind_service --inh-caps -net_bind_service "$(realpath "$BIN/bps-server")" --listen 127.0.0.1:80
fi
refuses_in_a_line 'probe|--listen 99999: not a port' "$BIN/bps-topo" probe --listen 99999
refuses_in_a_line 'bps-perf: -b.*1048576 is more than -e' "$perf" -b 1M -e 8
refuses 'Test timeout \(1s\) in bpsCommInitRank' env BPS_RANK=0 BPS_NRANKS=2 BPS_ROOT=127.0.0.1:$(free_port) BPS_TIMEOUT=60 "$perf" -b 8 -e 8 -T 1
refuses 'cpu|CPU' "$BIN/bps-server" --listen 127.0.0.1:0 --cpus 3-1
refuses 'wrong-option' "$BIN/bps-server" --wrong-option
refuses 'BPS_NET_PLUGIN=/nonexistent' env BPS_NET_PLUGIN=/nonexistent/libnccl-net-x.so "$BIN/bps-run" -n 2 -- "$perf" -b 8 -e 8
# A server with a different key is excluded by name (an error if it is required) and continues to run.
"$BIN/bps-server" --make-key "$WORK/other"
refuses "$SERVER_ADDRESS.*authentication.*key" env BPS_REQUIRE_SERVERS=1 BPS_SERVERS="$SERVER_ADDRESS" \
  BPS_KEY_FILE="$WORK/other" "$BIN/bps-run" -n 2 -- "$perf" -b 8 -e 8
BPS_SERVERS="$SERVER_ADDRESS" BPS_KEY_FILE="$WORK/other" "$BIN/bps-run" -n 2 -- "$perf" -b 8 -e 8 -n 1 \
  > "$WORK/out" 2>&1 || fail "a server with another key ends the job: $(tail -qn 5 "$WORK/out")"
grep -qE "server $SERVER_ADDRESS is left out: .*authentication.*key" "$WORK/out" || fail "$(cat "$WORK/out")"
# Random bytes on the server's port disturb no job.
for _ in 1 2 3; do head -c 100000 /dev/urandom > "/dev/tcp/${SERVER_ADDRESS%:*}/${SERVER_ADDRESS#*:}" 2>/dev/null; done
BPS_SERVERS=$SERVER_ADDRESS "$BIN/bps-run" -n 2 -- "$perf" -b 8 -e 1K -f 2 -n 1 > "$WORK/out" 2>&1 ||
  fail "after garbage: $(tail -qn 5 "$WORK/out")"
# A missing server causes a warning, or an error if it is required.
port=$(free_port)
BPS_SERVERS=127.0.0.1:$port "$BIN/bps-run" -n 2 -- "$perf" -b 8 -e 8 -n 1 > "$WORK/out" 2>&1 ||
  fail "without a server: $(tail -qn 5 "$WORK/out")"
grep -q "127.0.0.1:$port" "$WORK/out" || fail "the missing server is not named: $(cat "$WORK/out")"
refuses "127.0.0.1:$port" env BPS_REQUIRE_SERVERS=1 BPS_SERVERS=127.0.0.1:$port "$BIN/bps-run" -n 2 -- "$perf" -b 8 -e 8
# On one machine servers are not used; bps reports that once, or as an error if they are required.
BPS_SERVERS=127.0.0.1:$port "$BIN/bps-run" -n 1 -m 2 -- "$perf" -b 8 -e 8 -n 1 > "$WORK/out" 2>&1 ||
  fail "one machine: $(tail -qn 5 "$WORK/out")"
[ "$(grep -c 'BPS_SERVERS is not used: all ranks are on one machine' "$WORK/out")" = 1 ] || fail "not said once: $(cat "$WORK/out")"
refuses 'BPS_REQUIRE_SERVERS=1, but all ranks are on one machine' env BPS_REQUIRE_SERVERS=1 BPS_SERVERS=127.0.0.1:$port \
  "$BIN/bps-run" -n 1 -m 2 -- "$perf" -b 8 -e 8
# A misspelt variable causes one line for each process with a suggestion. Values that only NCCL understands do no harm.
BPS_SERVER=cpu1 NCCL_DEBUG=abort NCCL_DEBUG_SUBSYS=GRAPH,INIT NCCL_IB_TC=true NCCL_NET_PLUGIN=nosuch NCCL_SHM_DISABLE=2 \
  NCCL_TOPO_FILE=/nonexistent NCCL_IB_HCA=mlx5:x "$BIN/bps-run" -v -n 2 -- "$perf" -b 8 -e 8 -n 1 > "$WORK/out" 2>&1 ||
  fail "with NCCL's values: $(tail -qn 5 "$WORK/out")"
for line in 'BPS_SERVER is not a variable of bps: did you mean BPS_SERVERS' 'NCCL_IB_TC=true: not a number' \
  'using net plugin .*libnccl-net-bps.so; tried before it: libnccl-net-nosuch.so'; do
  [ "$(grep -c "$line" "$WORK/out")" = 2 ] || fail "not once for each rank: \"$line\": $(grep WARN "$WORK/out")"
done

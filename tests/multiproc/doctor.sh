#!/usr/bin/env bash
# bps-doctor finds each of these faults and names the remedy: a blocked data port, a wrong key, low memlock, low nofile,
# a wrong NIC, a server that is down, another version, an MTU black hole; also ranks that do not start or stop. Without a
# fault it finds nothing. Network namespaces behind a switch in user space stand for machines with faulty networks.
BUILD=$1; . "$(dirname "$0")/lib.sh"
BIN=$(realpath "$BIN")
doctor=$BIN/bps-doctor
export BPS_TIMEOUT=4
skipped=()

# finish SECONDS: waits for all ranks. Sets STATUS, the exit status of rank 0, and prints the report into $WORK/report.
finish() {
  local rank
  for rank in "${!RANK_PIDS[@]}"; do
    wait_for "$1" gone "${RANK_PIDS[rank]}" || fail "rank $rank still runs after $1 s
$(threads "${RANK_PIDS[rank]}")"
  done
  wait "${RANK_PIDS[0]}"
  STATUS=$?
  cp "$WORK/rank0.out" "$WORK/report"
}
report() { cat "$WORK/report"; tail -qn 5 "$WORK"/rank*.err; }
# finds CHECK TEXT FIX: the report has this problem with this remedy. The arguments are extended regular expressions.
finds() {
  [ $STATUS = 1 ] || fail "exit status $STATUS with \"$1\": $(report)"
  grep -A1 -E "^PROBLEM $1: .*$2" "$WORK/report" | grep -qE "^    fix: .*$3" || fail "no $1, \"$2\", \"$3\": $(report)"
  grep -qE '^verdict: [0-9]+ problems?, ' "$WORK/report" || fail "no verdict: $(report)"
}
# only CHECK...: the report has no problems besides these.
only() {
  local others; others=$(grep -E '^PROBLEM' "$WORK/report" | grep -vE "^PROBLEM ($(IFS='|'; echo "$*")):")
  [ -z "$others" ] || fail "unexpected: $others"
}
healthy() {
  [ $STATUS = 0 ] && grep -q '^verdict: all right$' "$WORK/report" || fail "status $STATUS: $(report)"
  grep -qE '^(PROBLEM|WARNING)' "$WORK/report" && fail "a finding without a fault: $(report)"
}

# No fault: three ranks, a server, an all-reduce. The JSON says the same as the text.
start_server first
export BPS_SERVERS=$SERVER_ADDRESS
start_ranks 3 "$doctor" -b 4M --json "$WORK/json"
finish 30
healthy
grep -qE "^server $SERVER_ADDRESS: usable from 3 of 3 machines, version [0-9.]+, .* [0-9]+ of 256 jobs" "$WORK/report" || fail "$(report)"
grep -qE '^all-reduce of 4194304 bytes: [0-9.]+ ms over 3 machines and 1 servers; .* allows? [0-9.]+ ms' "$WORK/report" || fail "$(report)"
[ "$(grep -cE '^ +[0-2] .* lo +127.0.0.1 ' "$WORK/report")" = 3 ] || fail "not a row for each machine: $(report)"
python3 - "$WORK/json" <<'PYTHON' || fail "the JSON is wrong: $(cat "$WORK/json")"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["exit_status"] == 0 and report["findings"] == [] and len(report["facts"]) == 3, report
# Every pair of ranks in both directions. The test has one interface in use, lo; the machine may have others.
pairs = {(way["from"], way["to"]) for way in report["ways"] if way["interface"] == "lo" and way["way"] == "good"}
assert pairs == {(a, b) for a in range(3) for b in range(3) if a != b}, pairs
assert report["all_reduce"]["seconds"] > 0, report
PYTHON
echo "  no fault: nothing found"
RANKS_PER_MACHINE=2 start_ranks 4 "$doctor" -b 0 --json
finish 30
[ $STATUS = 0 ] && python3 -c 'import json, sys; json.load(sys.stdin)' < "$WORK/report" || fail "two ranks a machine: $(report)"
# The variables of launchers, and bps-run.
env -u BPS_SERVERS OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 BPS_ROOT=127.0.0.1:1 "$doctor" --help > "$WORK/help" || fail "--help"
port=$(free_port)
for rank in 0 1; do
  SLURM_PROCID=$rank SLURM_NTASKS=2 BPS_ROOT=127.0.0.1:$port "$doctor" -b 1M > "$WORK/slurm$rank" 2>&1 &
  RANK_PIDS[rank]=$!
  PIDS+=($!)
done
wait "${RANK_PIDS[0]}" || fail "with Slurm's variables: $(cat "$WORK"/slurm*)"
grep -q '^bps-doctor: 2 of 2 ranks' "$WORK/slurm0" || fail "with Slurm's variables: $(cat "$WORK/slurm0")"
env -u BPS_SERVERS "$BIN/bps-run" -n 2 -s 1 -- "$doctor" -b 1M > "$WORK/run" 2> "$WORK/run.err" || fail "under bps-run: $(cat "$WORK/run" "$WORK/run.err")"
grep -q '^verdict: all right' "$WORK/run" || fail "under bps-run: $(cat "$WORK/run")"
# Wrong usage.
for options in --frobnicate '-b banana' "--json $WORK/none/file -b 0"; do
  $doctor $options > "$WORK/out" 2>&1
  [ $? = 2 ] || fail "status of $options: $(cat "$WORK/out")"
done
BPS_RANK=0 "$doctor" > "$WORK/out" 2>&1
[ $? = 2 ] && grep -q 'BPS_RANK and BPS_NRANKS' "$WORK/out" || fail "without BPS_NRANKS: $(cat "$WORK/out")"

# server down
closed=127.0.0.1:$(free_port)
BPS_SERVERS=$SERVER_ADDRESS,$closed start_ranks 2 "$doctor" -b 1M
finish 30
finds server "server $closed is not usable from rank 0 .* and 1 more: .*refused" 'start bps-server on that machine'
only server
grep -q '^all-reduce of .* and 1 servers' "$WORK/report" || fail "no all-reduce without the server: $(report)"
echo "  $(grep '^PROBLEM' "$WORK/report")"

# a server of another key, and a server that is stopped
"$BIN/bps-server" --make-key "$WORK/other"
BPS_KEY_FILE=$WORK/other start_ranks 2 "$doctor" -b 0
finish 30
finds key "server $SERVER_ADDRESS .*the key differs" 'copy one key file to all machines'
only key
kill -STOP "$SERVER_PID"
start_ranks 2 "$doctor" -b 0
finish 40
finds server "server $SERVER_ADDRESS .*does not answer" 'check that its machine runs'
kill -CONT "$SERVER_PID"
unset BPS_SERVERS

# one_differs N PREFIX...: starts N ranks; the prefix precedes the command of the last one.
one_differs() {
  local n=$1; shift
  start_ranks "$n" bash -c 'if [ "$BPS_RANK" = "$1" ]; then exec "${@:3}" "$2" -b 1M; else exec "$2" -b 1M; fi' bash $((n - 1)) "$doctor" "$@"
}
# wrong key on one rank only
one_differs 3 env BPS_KEY_FILE="$WORK/other"
finish 30
finds key 'rank 0 refused a process at 127.0.0.1:[0-9]+: .*the key differs' 'copy one key file to all machines'
finds rank 'rank 2 did not report to rank 0 within 4 s' 'the process that was refused'
only key rank
grep -q 'PROBLEM key: rank 2 cannot meet rank 0' "$WORK/rank2.err" || fail "rank 2: $(report)"
echo "  $(grep '^PROBLEM key' "$WORK/report")"
one_differs 2 env BPS_AUTH=off
finish 30
finds key 'authentication is' 'BPS_AUTH=off on all'
one_differs 2 env -u BPS_KEY_FILE
finish 30
finds rank 'rank 1 did not report' 'its own output'
grep -q 'PROBLEM key: rank 1: .*BPS_KEY_FILE' "$WORK/rank1.err" || fail "rank 1: $(report)"

# low nofile
one_differs 2 prlimit --nofile=60:80
finish 30
finds nofile 'rank 1 .* may open 60 descriptors; with 1 other machines and 0 servers it may need [0-9]+' "raise 'ulimit -n' to at least [0-9]+ .*the hard limit is 80"
only nofile
echo "  $(grep '^PROBLEM' "$WORK/report")"

# low memlock, on a machine with an RDMA device. A mount stands for the device, because only its presence matters.
cat > "$WORK/with_rdma" <<'SCRIPT'
ulimit -l 64 || exit
mount -t tmpfs none /sys/class && mkdir -p /sys/class/infiniband/mlx5_0 || exit
exec setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "$@"
SCRIPT
if unshare -m true 2>/dev/null && command -v setpriv > /dev/null; then
  NCCL_IB_DISABLE=0 one_differs 2 unshare -m bash "$WORK/with_rdma"
  finish 30
  finds memlock 'rank 1 .*RDMA device mlx5_0 and may lock only 64 KiB' 'ulimit -l unlimited.*NCCL_IB_DISABLE=1'
  only memlock
  echo "  $(grep '^PROBLEM' "$WORK/report")"
else
  skipped+=("low memlock: no mount namespaces")
fi

# another version of the library, and a process of another protocol version
if printf 'int bpsGetVersion(int* version) { *version = 102; return 0; }\n' | cc -x c -shared -fPIC -o "$WORK/older.so" - 2> "$WORK/cc"; then
  one_differs 2 env LD_PRELOAD="$WORK/older.so"
  finish 30
  finds version 'rank 1 .* has version 0.1.2, rank 0 .* has version [0-9.]+' 'install the same version of bps'
  only version
  echo "  $(grep '^PROBLEM' "$WORK/report")"
else
  skipped+=("another version: no C compiler")
fi
cat > "$WORK/old_protocol.py" <<'PYTHON'
import os, socket, sys, time
sys.path.insert(0, sys.argv[1])
import wire
host, port = os.environ["BPS_ROOT"].split(":")
until = time.monotonic() + 5
while True:
    try:
        peer = socket.create_connection((host, int(port)), 5)
        break
    except OSError:
        if time.monotonic() > until: raise
        time.sleep(.05)
body = wire.hello(4, 1000, bytes(32), bytes(32), "127.0.0.1:1", version=wire.VERSION - 1)
peer.sendall(wire.header(len(body), 1, 0, 0, version=wire.VERSION - 1) + body)
peer.settimeout(5)
peer.recv(1000)
PYTHON
start_ranks 2 bash -c 'if [ "$BPS_RANK" = 1 ]; then exec python3 "$2" "$3"; else exec "$1" -b 0; fi' bash "$doctor" "$WORK/old_protocol.py" "$(dirname "$0")/../hostile"
finish 30
finds version 'rank 0 refused a process .*protocol version' 'install the same version of bps'

# a rank that never starts, a rank that stops, and rank 0 that never starts
start_ranks 3 bash -c 'if [ "$BPS_RANK" = 1 ]; then exit; else exec "$1" -b 1M; fi' bash "$doctor"
finish 15
finds rank 'rank 1 did not report to rank 0 within 4 s' 'check that it was started.*BPS_ROOT'
only rank
echo "  $(grep '^PROBLEM' "$WORK/report")"
start_ranks 3 bash -c 'if [ "$BPS_RANK" = 1 ]; then sleep 1.5; fi; exec "$1" -b 1M' bash "$doctor"
sleep 1
kill -STOP "${RANK_PIDS[2]}"
wait_for 20 gone "${RANK_PIDS[0]}" || fail "rank 0 waits for a stopped rank"
kill -KILL "${RANK_PIDS[2]}"
finish 20
finds rank 'rank 2 stopped answering: it sent no answer in time' 'check that its machine still runs'
only rank
echo "  $(grep '^PROBLEM' "$WORK/report")"
BPS_RANK=1 BPS_NRANKS=2 BPS_ROOT=127.0.0.1:$(free_port) BPS_TIMEOUT=1 timeout 10 "$doctor" > "$WORK/out" 2>&1 || fail "without rank 0: $(cat "$WORK/out")"
grep -q 'PROBLEM rank: rank 1 cannot meet rank 0 at 127.0.0.1:' "$WORK/out" || fail "without rank 0: $(cat "$WORK/out")"

# An interface that does not exist, and a port range without a free port.
one_differs 2 env BPS_SOCKET_IFNAME=nosuch9
finish 30
finds nic 'rank 1 .*"nosuch9" selects no interface that is up' 'unset BPS_SOCKET_IFNAME'
only nic
taken=${SERVER_ADDRESS##*:}
one_differs 2 env BPS_PORT_RANGE="$taken-$taken"
finish 30
finds port 'rank 1 .* cannot listen on lo: ' 'let BPS_PORT_RANGE contain free ports'

# Faulty networks.
SWITCH=bpsdoc$$
coproc TAP { exec python3 "$(dirname "$0")/tap_switch.py" "$SWITCH" 3 2> "$WORK/switch"; }
tap_pid=$TAP_PID tap_in=${TAP[1]} tap_out=${TAP[0]}
close_switch() { eval "exec $tap_in>&-"; wait "$tap_pid" 2>/dev/null; }
trap 'close_switch; end' EXIT
finish_skipped() {
  [ ${#skipped[@]} = 0 ] && exit 0
  (IFS=';'; echo "not all parts: ${skipped[*]}")
  exit 77
}
read -rt 20 -u "$tap_out" answer && [ "$answer" = up ] || {
  skipped+=("faulty networks: no network namespaces with TAP devices: $(tail -n 1 "$WORK/switch")")
  finish_skipped
}
network() { echo "cut $*" >&"$tap_in"; read -rt 10 -u "$tap_out" answer || fail "the switch does not answer: $(cat "$WORK/switch")"; }
export BPS_SOCKET_IFNAME=eth0 BPS_PORT_RANGE=21000-21050 BPS_BANDWIDTH=0.2
# start_hosts: starts a rank on each of the three hosts. OTHER_NIC: BPS_SOCKET_IFNAME of rank 1.
start_hosts() {
  local rank
  RANK_PIDS=()
  rm -f "$WORK"/rank*
  for rank in 0 1 2; do
    (export BPS_RANK=$rank BPS_NRANKS=3 BPS_ROOT=10.79.0.1:7701 BPS_HOSTID=machine$rank
     if [ $rank = 1 ]; then export BPS_SOCKET_IFNAME=${OTHER_NIC:-eth0}; fi
     exec ip netns exec "$SWITCH-$rank" "$doctor" -b 1M) > "$WORK/rank$rank.out" 2> "$WORK/rank$rank.err" &
    RANK_PIDS+=($!)
    PIDS+=($!)
  done
}
start_hosts
finish 60
[ $STATUS = 0 ] || fail "a network without faults: $(report)"
grep -q '^PROBLEM' "$WORK/report" && fail "a network without faults: $(report)"

network ports=21000-21050
start_hosts
finish 60
finds port 'rank 1 .* cannot reach the data port of rank 0 .* at 10.79.0.1:21[0-9]+ \(eth0\): no answer within 3 s' 'open the TCP ports of BPS_PORT_RANGE \(now 21000-21050\)'
only port
[ "$(grep -c '^PROBLEM port' "$WORK/report")" = 6 ] || fail "not every pair in both directions: $(report)"
echo "  $(grep -m 1 '^PROBLEM' "$WORK/report")"

network above=1500
start_hosts
finish 60
finds mtu 'small packets from rank [0-2] .* to rank [0-2] .* pass, but full-size packets get lost' 'an MTU black hole: give all links between them the same MTU \(now eth0 9000'
only mtu
echo "  $(grep -m 1 '^PROBLEM' "$WORK/report")"
network

in_one() { ip -n "$SWITCH-1" "$@" > "$WORK/ip" 2>&1; }
if in_one link add wrong0 type veth peer name wrong1 && in_one addr add 192.168.77.1/24 dev wrong0 &&
  in_one link set wrong0 up && in_one link set wrong1 up; then
  OTHER_NIC=wrong0 start_hosts
  finish 60
  finds nic 'rank 1 .* uses the interface wrong0 \(192.168.77.1\), which no other machine can reach; all of them reach eth0' 'set BPS_SOCKET_IFNAME=eth0 on host'
  only nic
  echo "  $(grep -m 1 '^PROBLEM' "$WORK/report")"
  OTHER_NIC=lo start_hosts
  finish 60
  finds nic 'rank 1 .* uses the interface lo' 'set BPS_SOCKET_IFNAME=eth0 on host'
else
  skipped+=("wrong NIC: no veth devices: $(tail -n 1 "$WORK/ip")")
fi
finish_skipped

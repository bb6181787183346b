#!/usr/bin/env bash
# bps-topo probe --peer measures each NIC with a bps-topo probe --listen in another network namespace: two links of
# different rates, joined crosswise, and a NIC without a link. The planner divides the load by the rates in the written
# file. Errors are named, and the other end continues to serve. Usage: probe_nics.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_SOCKET_IFNAME BPS_TOPO_FILE BPS_TOPO_DUMP_FILE
topo=$(realpath "$BUILD")/bin/bps-topo
here=bpsprobe-$$-a there=bpsprobe-$$-b
trap 'end; ip netns del $here 2>/dev/null; ip netns del $there 2>/dev/null' EXIT
limit() { tc -n "$1" qdisc add dev "$2" root tbf rate "$3mbit" burst 128k latency 30ms; }
# link NAME THERE MBIT OURS THEIRS: joins a local NIC with a remote one, limited both ways.
link() {
  ip -n $here link add "$1" type veth peer name "$2" netns $there &&
    ip -n $here addr add "$4" dev "$1" nodad && ip -n $there addr add "$5" dev "$2" nodad &&
    ip -n $here link set "$1" up && ip -n $there link set "$2" up && limit $here "$1" "$3" && limit $there "$2" "$3"
}
network() {
  ip netns add $here && ip netns add $there && ip -n $here link set lo up &&
    link eth0 eth1 200 10.79.0.1/24 10.79.0.2/24 && link eth1 eth0 50 fd79::1/64 fd79::2/64 &&
    ip -n $here link add eth2 type veth peer name none && ip -n $here link set none up &&
    ip -n $here addr add 10.79.2.1/24 dev eth2 && ip -n $here link set eth2 up
}
network > "$WORK/network" 2>&1 || skip "no network namespaces with limited links: $(tail -n 1 "$WORK/network")"

cat > "$WORK/machine.xml" <<'XML'
<system version="1">
  <cpu numaid="0" affinity="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:01:00.0" class="0x020000"><nic><net name="eth0" dev="0" speed="10000"/></nic></pci>
    <pci busid="0000:02:00.0" class="0x020000"><nic><net name="eth1" dev="1" speed="10000"/></nic></pci>
    <pci busid="0000:03:00.0" class="0x020000"><nic><net name="eth2" dev="2" speed="10000"/></nic></pci>
  </cpu>
</system>
XML

address=10.79.0.2:7701
ip netns exec $there "$topo" probe --listen $address > "$WORK/listener" 2>&1 &
listener=$!
PIDS+=("$listener")
wait_for 10 grep -q "^listening on $address\$" "$WORK/listener" || fail "the probe does not listen: $(cat "$WORK/listener")"

# probe NAME ARGUMENT...: probes from here; the output is in $WORK/NAME.
probe() {
  local name=$1; shift
  env --default-signal=INT timeout 60 ip netns exec $here "$topo" probe --topo "$WORK/machine.xml" "$@" > "$WORK/$name" 2>&1
}
# ends STATUS NAME PATTERN...: the last probe had that status and printed all patterns.
ends() {
  local status=$? expected=$1 name=$2; shift 2
  [ $status = "$expected" ] || fail "$name: status $status, not $expected: $(cat "$WORK/$name" "$WORK/listener")"
  for pattern; do
    grep -qE -- "$pattern" "$WORK/$name" || fail "$name: no line matches \"$pattern\": $(cat "$WORK/$name")"
  done
}

# Invalid requests are reported before anything is measured.
probe port --peer 10.79.0.2:banana; ends 2 port '--peer 10.79.0.2:banana: .*port'
probe both --peer $address --listen 7701; ends 2 both '--peer has no effect with --listen, which only serves'
"$topo" probe --listen 7701x > "$WORK/listen" 2>&1; ends 2 listen '--listen 7701x: '
BPS_TIMEOUT=1 probe nobody --peer 10.79.0.2:1; ends 2 nobody '--peer 10.79.0.2:1: .*10.79.0.2:1.*refused'
"${topo%/*}/bps-server" --make-key "$WORK/other"
BPS_KEY_FILE=$WORK/other probe wrong --peer $address; ends 2 wrong 'authentication failed: the key differs'
BPS_AUTH=off probe off --peer $address; ends 2 off 'authentication is on .*BPS_AUTH'
BPS_KEY_FILE='' probe without --peer $address; ends 2 without 'no key for bps-topo probe: set BPS_KEY_FILE'

# A stopped probe keeps its place for a while, and other probes are told which one has it. An interrupted probe frees
# its place.
flows() { ip netns exec $there ss -Htni state established | grep -qE 'bytes_received:[0-9]{5}'; }
probe first --peer $address --out "$WORK/never.xml" &
first=$!
PIDS+=("$first")
wait_for 20 flows || fail "nothing flows: $(cat "$WORK/first" "$WORK/listener")"
measuring=$(pgrep -P "$(pgrep -P "$first" timeout)")
kill -STOP "$measuring"
BPS_TIMEOUT=1 probe second --peer $address; ends 2 second 'busy with (10.79.0.1|.fd79::1)'
kill -INT "$measuring" && kill -CONT "$measuring"
wait "$first"; ends 130 first
[ ! -e "$WORK/never.xml" ] || fail "an interrupted probe has written a file"

# A frame of 1514 bytes carries 1448 or, by IPv6, 1428; a busy machine may not fill the links all the time.
probe all --json --peer $address --out "$WORK/probed.xml"; ends 1 all
python3 - "$WORK/all" <<'PYTHON' || fail "the rates: $(cat "$WORK/all")"
import json, sys
nics = {row["what"]: row for row in json.load(open(sys.argv[1])) if row["what"].startswith("NIC")}
good = nics.keys() == {"NIC eth0 out", "NIC eth0 in", "NIC eth1 out", "NIC eth1 in", "NIC eth2"}
for name, row in nics.items():
    part = row["bytes_per_second"] * 8e-6 / {"eth0": 200, "eth1": 50, "eth2": 1}[name.split()[1]]
    good = good and (0.75 < part < 1.05 if name != "NIC eth2" else row["skipped"] and "no route from 10.79.2.1" in row["note"])
sys.exit(not good)
PYTHON
# The shares of the NICs match the measured rates.
sed -i '/eth2/d' "$WORK/probed.xml"
"$topo" plan --bytes 1M --topo "$WORK/probed.xml" > "$WORK/plan" || fail "plan: $(cat "$WORK/plan")"
awk '/^NIC eth/ { share[$2] = $NF } END { part = share["eth0"] / share["eth1"]; exit !(3.1 < part && part < 5.2) }' \
  "$WORK/plan" || fail "not shares as 200 to 50: $(cat "$WORK/plan")"

# The other end stops: the probe reports it in time, also for the NICs that follow. The other end reports it once it
# continues.
BPS_TIMEOUT=1 probe stopped --peer $address &
stopped=$!
PIDS+=("$stopped")
wait_for 20 flows || fail "nothing flows: $(cat "$WORK/stopped" "$WORK/listener")"
kill -STOP "$listener"
wait "$stopped"; ends 1 stopped '^NIC eth[01] +skip ' '^NIC eth2 +skip +10.79.0.2:7701 does not answer'
kill -CONT "$listener"
wait_for 10 grep -qE '^10.79.0.1:[0-9]+: not measured: ' "$WORK/listener" || fail "not reported: $(cat "$WORK/listener")"
exit 0

#!/usr/bin/env bash
# bps-topo fabric detect in an emulated BCube(2,2): four namespaces, and a bridge for each switch. Every machine finds
# its place, and bps all-reduces with the settings that it proposes. Then cables are cut, and addresses changed.
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_SOCKET_IFNAME NCCL_IB_DISABLE BPS_FABRIC
[ "$(id -u)" = 0 ] || skip "making network namespaces needs root"
command -v ip >/dev/null || skip "no ip (iproute2)"
tag=bpsfd-$$
remove() { for space in $(ip netns list 2>/dev/null | grep -oE "^$tag-[a-z0-9]+"); do ip netns del "$space"; done; }
# The processes end first, because a namespace lives as long as they do.
trap 'end; remove' EXIT
ip netns add "$tag-sw" 2> "$WORK/err" || skip "network namespaces cannot be made here: $(cat "$WORK/err")"
ip -n "$tag-sw" link add br0 type bridge 2> "$WORK/err" || skip "bridges cannot be made here: $(cat "$WORK/err")"
ip -n "$tag-sw" link del br0

machines=(00 10 01 11)
# Machine XY is in switch Y of level 0, as number X + 1, and in switch X of level 1, as number Y + 1.
address() { local x=${1:0:1} y=${1:1:1}; if [ "$2" = 0 ]; then echo "10.0.$y.$((x + 1))"; else echo "10.1.$x.$((y + 1))"; fi; }
switch() { local x=${1:0:1} y=${1:1:1}; if [ "$2" = 0 ]; then echo "br0-$y"; else echo "br1-$x"; fi; }

must() { "$@" > "$WORK/err" 2>&1 || fail "$*: $(cat "$WORK/err")"; }
for bridge in br0-0 br0-1 br1-0 br1-1; do
  must ip -n "$tag-sw" link add "$bridge" type bridge stp_state 0 forward_delay 0
  must ip -n "$tag-sw" link set "$bridge" up
done
for machine in "${machines[@]}"; do
  must ip netns add "$tag-m$machine"
  must ip -n "$tag-m$machine" link set lo up
  for level in 0 1; do
    must ip -n "$tag-sw" link add "p$machine-$level" type veth peer name "eth$level" netns "$tag-m$machine"
    must ip -n "$tag-sw" link set "p$machine-$level" master "$(switch "$machine" $level)" up
    must ip -n "$tag-m$machine" addr add "$(address "$machine" $level)/24" dev "eth$level"
    must ip -n "$tag-m$machine" link set "eth$level" up
    # The kernel trusts an answer for about half a minute. Here it is less, so that the test is fast.
    for setting in base_reachable_time_ms=1000 delay_first_probe_time=1; do
      must ip netns exec "$tag-m$machine" sh -c "echo ${setting#*=} > /proc/sys/net/ipv4/neigh/eth$level/${setting%=*}"
    done
  done
done

# detect MACHINE OPTION...: its output is in $WORK/out and $WORK/err.
detect() {
  timeout 60 ip netns exec "$tag-m$1" "$BIN/bps-topo" fabric detect "${@:2}" > "$WORK/out" 2> "$WORK/err"
}
prints() { grep -qF -- "$1" "$WORK/out" || fail "no line has \"$1\": $(cat "$WORK/out" "$WORK/err")"; }
# refuses PATTERN MACHINE OPTION...: detect fails with one line that matches.
refuses() {
  detect "${@:2}" && fail "${*:2}: exit 0: $(cat "$WORK/out")"
  [ "$(wc -l < "$WORK/err")" = 1 ] && grep -qE -- "$1" "$WORK/err" || fail "${*:2}: no line matches \"$1\": $(cat "$WORK/err")"
}

for machine in "${machines[@]}"; do
  detect "$machine" || fail "machine $machine: $(cat "$WORK/err")"
  prints "This machine is $machine of BCube(2,2), if all 4 machines find the same shape."
  prints "export BPS_SOCKET_IFNAME=eth0,eth1"
  grep '^export' "$WORK/out" > "$WORK/settings-$machine"
done

# The settings are right: a job with them has right sums.
rank=0
for machine in "${machines[@]}"; do
  # shellcheck disable=SC1090
  (. "$WORK/settings-$machine"
   export BPS_RANK=$rank BPS_NRANKS=4 BPS_ROOT=$(address 00 0):7601 BPS_HOSTID=$machine
   exec ip netns exec "$tag-m$machine" "$BIN/bps-perf" -b 64K -e 64K -n 2 -w 0 -c 1) > "$WORK/rank$rank.out" 2> "$WORK/rank$rank.err" &
  RANK_PIDS[rank]=$!
  PIDS+=($!)
  rank=$((rank + 1))
done
for r in 0 1 2 3; do
  wait_for 60 gone "${RANK_PIDS[r]}" || fail "rank $r does not end: $(tail -n 3 "$WORK/rank$r.err")"
  wait "${RANK_PIDS[r]}" || fail "rank $r: $(tail -n 3 "$WORK/rank$r.err")"
done
grep -q 'Out of bounds values : 0 OK' "$WORK/rank0.out" || fail "wrong sums: $(cat "$WORK/rank0.out")"

# An entry of the table that an administrator has made is no answer.
must ip -n "$tag-m10" neigh replace 10.0.0.77 lladdr 02:00:00:00:00:77 dev eth0 nud permanent
detect 10 || fail "a permanent entry: $(cat "$WORK/err")"
prints "This machine is 10 of BCube(2,2)"

# Levels have the order of --interfaces.
detect 10 --interfaces eth1,eth0 || fail "--interfaces: $(cat "$WORK/err")"
prints "This machine is 01 of BCube(2,2)"
refuses 'only eth0 \(10\.0\.1\.1/24\)' 01 --interfaces eth0
refuses '"eth7" is no interface that is up with an IPv4 address \(.*eth1 10\.1\.0\.2' 01 --interfaces eth0,eth7

# Without a cable, nobody answers on the level.
must ip -n "$tag-sw" link set p01-1 down
refuses 'no BCube: level 1: no other machine answers in the network of eth1 \(10\.1\.0\.1/24\)' 00
must ip -n "$tag-sw" link set p01-1 up

# A third machine in a switch: the levels have different numbers of neighbours.
must ip -n "$tag-m11" addr add 10.0.0.7/24 dev eth0
must ip -n "$tag-sw" link set p11-0 master br0-0
refuses 'no BCube: level 0 \(eth0\) has 2 neighbours, but level 1 \(eth1\) has 1' 00
must ip -n "$tag-sw" link set p11-0 master br0-1

# Other addresses need a file.
must ip -n "$tag-m10" addr del 10.0.0.2/24 dev eth0
must ip -n "$tag-m10" addr add 10.0.0.9/24 dev eth0
detect 10 || fail "other addresses: $(cat "$WORK/err")"
prints "10 10.0.0.9 10.1.1.1"
prints "export BPS_FABRIC=bcube:n=2,k=2,addresses=FILE,relay="
exit 0

#!/usr/bin/env bash
# RDMA verbs, in a virtual machine with software RDMA devices: our plugin passes net-plugin-check by WRITE with immediate
# and by SEND, on both devices; an all-reduce has the same bits by verbs as by TCP; a killed rank is named; what
# NCCL_IB_* asks for is done, and what cannot be done is said. Skipped, saying what is missing, where no such machine
# can be started.
vm=$(dirname "$0")/../vm/soft_roce.sh
if [ "${1:-}" != --inside ]; then
  exec "$vm" bash "$0" --inside "$(realpath "${1:-build}")"
fi
BUILD=$2; . "$(dirname "$0")/lib.sh"
unset NCCL_IB_DISABLE BPS_KEY_FILE
ours=$BUILD/lib/libnccl-net-bps.so check=$BIN/net-plugin-check
export BPS_SOCKET_IFNAME=roce0 NCCL_SHM_DISABLE=1
long=${BPS_TEST_LONG:-0}

# passes ARGUMENTS...: net-plugin-check does.
passes() {
  timeout 150 "$check" "$ours" "$@" > "$WORK/out" 2>&1 ||
    fail "net-plugin-check with $*, BPS_IB_WRITE=${BPS_IB_WRITE:-1}: $(grep -vE '^(PASS|skip)' "$WORK/out" | tail -n 10)"
  grep -qE '^[0-9]+ passed, 0 failed, [0-9]+ skipped$' "$WORK/out" || fail "no last line: $(tail -n 3 "$WORK/out")"
}
# Not the measures, nor the rule with a tight limit of time: every instruction may be emulated here.
rules=$("$check" --list | awk '{print $1}' | grep -vE '^(latency|bandwidth|posting-never-waits)$' | paste -sd,)
short=connect-polled,cycles,registration,in-flight,order,zero-bytes,short-message,misaligned,large,oversize,close-when-sent,close-in-flight,sender-killed,receiver-killed
[ "$long" = 1 ] && short=$rules
passes --device 0 --only "$rules" --cycles 20 --max-bytes 10M
BPS_IB_WRITE=0 passes --device 0 --only "$short" --cycles 5 --max-bytes 10M
for write in 1 0; do BPS_IB_WRITE=$write passes --device 1 --only order,large,sender-killed --max-bytes 10M; done

# says PATTERN ARGUMENTS...: the plugin's log has it.
says() {
  local pattern=$1; shift
  timeout 20 env "$@" "$check" "$ours" -v --device 0 --only init,order > "$WORK/out" 2>&1 || fail "$*: $(tail -n 5 "$WORK/out")"
  grep -qE -- "$pattern" "$WORK/out" || fail "no line has \"$pattern\" with $*: $(cat "$WORK/out")"
}
says 'verbs device rxe0:1: GID 1 ::ffff:10.9.0.1' A=1
says 'to 10.9.0.1:[0-9]+: rxe0:1 GID ::ffff:10.9.0.1, theirs ::ffff:10.9.0.1, by WRITE with immediate, 8388608 bytes' A=1
says 'by SEND' BPS_IB_WRITE=0
says 'to .*: rxe1:1 GID ::ffff:10.9.0.2' NCCL_IB_HCA==rxe1:1
says 'to .*: rxe1:1 GID' NCCL_IB_HCA=^rxe0
says 'GID fe80::' NCCL_IB_GID_INDEX=0
says 'rxe0:1 is not used: it has no GID 7' NCCL_IB_GID_INDEX=7
says 'of 2 RDMA ports none is used' NCCL_IB_HCA=mlx5
says 'TCP device roce0' NCCL_IB_DISABLE=1
says 'shared memory with process' NCCL_SHM_DISABLE=0
ip link set roce0 down  # which takes the other end's carrier away
says 'rxe0:1 is not used: its state is DOWN' BPS_SOCKET_IFNAME=lo
ip link set roce0 up
wait_for 10 grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state || fail "rxe0 does not come back"

# Without the right to lock memory, and little of it allowed.
limited() { (ulimit -l "$1" && setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock "${@:2}"); }
limited 64 timeout 20 "$check" "$ours" -v --device 0 --only init > "$WORK/out" 2>&1 || fail "little memlock: $(cat "$WORK/out")"
grep -q 'RLIMIT_MEMLOCK is 65536 bytes and 1048576 are needed' "$WORK/out" || fail "memlock is not named: $(cat "$WORK/out")"
limited 8192 timeout 20 "$check" "$ours" --device 0 --only large --max-bytes 64M > "$WORK/out" 2>&1 && fail "64M within 8M of memlock"
grep -qE 'RLIMIT_MEMLOCK is 8388608 bytes and [0-9]+ are needed now' "$WORK/out" || fail "memlock is not named: $(cat "$WORK/out")"

# sum NAME=VALUE...: the checksum of an all-reduce's result, and that it went the way it should.
sum() {
  BPS_DEBUG=INFO env "$@" "$BIN/bps-run" -n 2 -s 1 -- "$BIN/bps-perf" --model lenet5 -d bfloat16 -n 2 -w 0 \
    > "$WORK/out" 2> "$WORK/err" || fail "all-reduce with $*: exit $?: $(tail -qn 5 "$WORK/out" "$WORK/err")"
  grep -oiE 'checksum[^0-9a-f]*(0x)?[0-9a-f]{8,}' "$WORK/out" | sort -u
}
wanted=$(sum NCCL_IB_DISABLE=1)
[ -n "$wanted" ] || fail "no checksum: $(cat "$WORK/out")"
[ "$(sum A=1)" = "$wanted" ] || fail "other bits by WRITE than by TCP"
grep -q 'by WRITE with immediate' "$WORK/err" || fail "the all-reduce did not go by verbs: $(tail -n 5 "$WORK/err")"
[ "$(sum BPS_IB_WRITE=0)" = "$wanted" ] || fail "other bits by SEND than by TCP"
[ "$(sum NCCL_IB_HCA==rxe1)" = "$wanted" ] || fail "other bits on the other device"

start_server one
for victim in 0 1; do
  BPS_SERVERS=$SERVER_ADDRESS start_ranks 2 "$BIN/bps-perf" -b 4M -e 4M -n 1 -w 0 -c 0 -N 0
  wait_for 20 in_loop 0 || fail "rank 0 does not get going: $(tail -qn 3 "$WORK/rank0.out" "$WORK/rank0.err")"
  kill -KILL "${RANK_PIDS[$victim]}"
  ends_with_error $((1 - victim)) "rank $victim" 7
done
gone "$SERVER_PID" && fail "the server died: $(tail -qn 3 "$WORK/one.err")"

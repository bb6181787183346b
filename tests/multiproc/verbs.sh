#!/usr/bin/env bash
# RDMA verbs in a virtual machine with software RDMA devices. bps's plugin passes net-plugin-check by WRITE with
# immediate and by SEND on both devices; an all-reduce has the same bits by both; a killed rank is named; NCCL_IB_*
# settings apply, and impossible ones are reported. Skipped with the reason if such a machine cannot be started. The CPU
# may emulate every instruction there, so each run tests only what depends on the transport; BPS_TEST_LONG=1 tests the
# rest, except the rule with a tight time limit. If the machine is too slow for the short version, the test is skipped
# and reports how far it came.
vm=$(dirname "$0")/../vm/soft_roce.sh
long=${BPS_TEST_LONG:-0}
if [ "${1:-}" != --inside ]; then
  said=$(mktemp) status=0
  trap 'rm -f "$said"' EXIT
  export VM_SECONDS=${VM_SECONDS:-$((long == 1 ? 800 : 180))}
  "$vm" bash "$0" --inside "$(realpath "${1:-build}")" "$long" > "$said" || status=$?
  cat "$said"
  if [ "$status" = 124 ] && [ "$long" != 1 ]; then
    echo "the virtual machine is too slow here: after $VM_SECONDS s $(grep -c '^done: ' "$said") of 7 parts were done (BPS_TEST_LONG=1 gives it more)"
    exit 77
  fi
  exit "$status"
fi
BUILD=$2 long=$3
export BPS_TIMEOUT=60  # a slow machine is not a dead one
. "$(dirname "$0")/lib.sh"
unset NCCL_IB_DISABLE
ours=$BUILD/lib/libnccl-net-bps.so check=$BIN/net-plugin-check
export BPS_SOCKET_IFNAME=roce0 NCCL_SHM_DISABLE=1

done_with() { echo "done: $1, after $SECONDS s"; }

# passes ARGUMENTS...: net-plugin-check passes.
passes() {
  local out=$WORK/out.check
  timeout 600 "$check" "$ours" --max-bytes 10M --timeout 60 --notice 30 "$@" > "$out" 2>&1 ||
    fail "net-plugin-check with $*, BPS_IB_WRITE=${BPS_IB_WRITE:-1}: $(grep -vE '^(PASS|skip)' "$out" | tail -n 10)"
  grep -qE '^[0-9]+ passed, 0 failed, [0-9]+ skipped$' "$out" || fail "no last line: $(tail -n 3 "$out")"
}
conformance() {
  local rules write
  rules=$("$check" --list | awk '{print $1}' | grep -vE '^(latency|bandwidth|posting-never-waits)$' | paste -sd,)
  [ "$long" = 1 ] ||
    rules=crossing-connects,cycles,in-flight,order,zero-bytes,short-message,misaligned,large,oversize,close-when-sent,close-in-flight,sender-killed,receiver-killed
  passes --device 0 --only "$rules" --cycles $((long == 1 ? 1000 : 10))
  done_with "conformance by WRITE"
  [ "$long" = 1 ] || rules=in-flight,zero-bytes,short-message,large,oversize,receiver-killed
  BPS_IB_WRITE=0 passes --device 0 --only "$rules" --cycles 10
  done_with "conformance by SEND"
  [ "$long" = 1 ] || rules=large
  for write in 1 0; do BPS_IB_WRITE=$write passes --device 1 --only "$rules" --cycles 10; done
  done_with "the other device"
}

# says PATTERN ARGUMENTS...: the plugin's log matches the pattern.
says() {
  local pattern=$1 out=$WORK/out.says; shift
  timeout 60 env "$@" "$check" "$ours" -v --device 0 --only order > "$out" 2>&1 || fail "$*: $(tail -n 5 "$out")"
  grep -qE -- "$pattern" "$out" || fail "no line has \"$pattern\" with $*: $(cat "$out")"
}
# limited KIB PATTERN ARGUMENTS...: the same with a limit on locked memory.
limited() {
  local limit=$1 pattern=$2 out=$WORK/out.says; shift 2
  (ulimit -l "$limit" && timeout 60 setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \
    "$check" "$ours" -v --device 0 "$@" --max-bytes 64M > "$out" 2>&1)
  grep -qE -- "$pattern" "$out" || fail "no line has \"$pattern\" with $limit KiB of memlock: $(cat "$out")"
}
settings() {
  says 'to .*: rxe1:1 GID ::ffff:10.9.0.2, peer.s GID ::ffff:10.9.0.2, by SEND, at most 8388608 bytes' NCCL_IB_HCA==rxe1:1 BPS_IB_WRITE=0
  says 'shared memory with process' NCCL_SHM_DISABLE=0
  limited 8192 'RLIMIT_MEMLOCK is 8388608 bytes, but [0-9]+ bytes are needed' --only large
  [ "$long" = 1 ] || return 0
  limited 64 'RLIMIT_MEMLOCK is 65536 bytes, but 1048576 bytes are needed' --only init
  says 'verbs device rxe0:1: GID 1 ::ffff:10.9.0.1' A=1
  says 'by WRITE with immediate' A=1
  says 'to .*: rxe1:1 GID' NCCL_IB_HCA=^rxe0
  says 'GID fe80::' NCCL_IB_GID_INDEX=0
  says 'rxe0:1 is not used: it has no GID 7' NCCL_IB_GID_INDEX=7
  says 'none of 2 RDMA ports is usable' NCCL_IB_HCA=mlx5
  says 'TCP device roce0' NCCL_IB_DISABLE=1
}

# GPU memory without a GPU: the fake CUDA driver has memory that can be pinned, and the test pretends that the kernel
# module for peer memory is loaded.
with_gpu_memory() {
  unshare -m sh -c 'mount -t tmpfs none /sys/module && mkdir /sys/module/nvidia_peermem && exec "$@"' sh \
    env LD_LIBRARY_PATH="$BUILD/tests/fake_cuda" FAKE_CUDA_PEER_MEMORY=1 timeout 600 "$@"
}
gpu_memory() {
  local write out=$WORK/out.gpu
  for write in 1 0; do
    BPS_IB_WRITE=$write NCCL_SHM_DISABLE=0 with_gpu_memory "$check" "$ours" -v --device 0 --only properties,flush,gpu-memory --timeout 60 > "$out" 2>&1 ||
      fail "GPU memory, BPS_IB_WRITE=$write: $(grep -v '^PASS' "$out" | tail -n 10)"
    grep -q '^PASS  gpu-memory *by address' "$out" || fail "no GPU memory was sent: $(tail -n 5 "$out")"
    grep -q 'rxe0:1.*GPU memory by nvidia_peermem' "$out" || fail "the log does not name the way: $(tail -n 5 "$out")"
  done
}

# An all-reduce of buffers on the fake's devices: the chunks to the server bypass host memory.
gpu_all_reduce() {
  cat > "$WORK/machine.xml" <<'XML'
<system version="1">
  <cpu numaid="0" affinity="3" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:17:00.0" class="0x060400" link_speed="8.0 GT/s PCIe" link_width="16">
      <pci busid="0000:1a:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="70"/></pci>
      <pci busid="0000:1b:00.0" class="0x020000" link_speed="8.0 GT/s PCIe" link_width="16">
        <nic><net name="rxe0" dev="0" speed="10000" port="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
XML
  BPS_DEBUG=INFO BPS_TOPO_FILE=$WORK/machine.xml with_gpu_memory "$BIN/bps-run" -n 2 -s 1 -- \
    "$BIN/bps-perf" -b 2M -e 2M -n 2 -w 0 -m 2 > "$WORK/out.gpu" 2> "$WORK/err.gpu" ||
    fail "all-reduce of GPU memory: $(tail -qn 5 "$WORK/out.gpu" "$WORK/err.gpu")"
  grep -q '^# Out of bounds values : 0 OK' "$WORK/out.gpu" || fail "wrong sums of GPU memory: $(tail -n 5 "$WORK/out.gpu")"
  grep -qE 'GPU memory, [12] of [0-9] owners reached without host memory by rxe0' "$WORK/out.gpu" "$WORK/err.gpu" ||
    fail "it went through host memory: $(grep -h GPUDirect "$WORK/out.gpu" "$WORK/err.gpu")"
  [ "$long" = 1 ] || return 0
  # NCCL may use GPU memory on any connection. bps asks first, so it keeps shared memory within a machine.
  BPS_DEBUG=INFO BPS_TOPO_FILE=$WORK/machine.xml NCCL_SHM_DISABLE=0 with_gpu_memory "$BIN/bps-run" -n 2 -s 1 -- \
    "$BIN/bps-perf" -b 2M -e 2M -n 1 -w 0 -m 2 > "$WORK/out.gpu" 2>&1 ||
    fail "all-reduce of GPU memory within a machine: $(tail -n 5 "$WORK/out.gpu")"
  grep -q 'shared memory with process' "$WORK/out.gpu" || fail "no shared memory where GPU memory could come"
  grep -q 'GPU memory, 0 of [0-9] owners reached without host memory.*supports host memory only' "$WORK/out.gpu" ||
    fail "what goes through shared memory: $(grep GPUDirect "$WORK/out.gpu")"
}

# sum NAME=VALUE...: puts the checksum of an all-reduce's result into SUM.
sum() {
  BPS_DEBUG=INFO env "$@" "$BIN/bps-run" -n 2 -s 1 -- "$BIN/bps-perf" --model lenet5 -d bfloat16 -n 2 -w 0 \
    > "$WORK/out.sum" 2> "$WORK/err.sum" || fail "all-reduce with $*: exit $?: $(tail -qn 5 "$WORK/out.sum" "$WORK/err.sum")"
  SUM=$(grep -oiE 'checksum[^0-9a-f]*(0x)?[0-9a-f]{8,}' "$WORK/out.sum" | sort -u)
  [ -n "$SUM" ] || fail "no checksum with $*: $(cat "$WORK/out.sum")"
}
all_reduce() {
  local write
  sum BPS_IB_WRITE=1
  write=$SUM
  grep -q 'by WRITE with immediate' "$WORK/err.sum" || fail "it did not go by verbs: $(tail -n 5 "$WORK/err.sum")"
  sum BPS_IB_WRITE=0
  [ "$SUM" = "$write" ] || fail "other bits by SEND, $SUM, than by WRITE, $write"
  [ "$long" = 1 ] || return 0
  sum NCCL_IB_HCA==rxe1
  [ "$SUM" = "$write" ] || fail "other bits on the other device"
  sum NCCL_IB_DISABLE=1
  [ "$SUM" = "$write" ] || fail "other bits by TCP"
}

# If a rank is killed during a call, the other rank names it, and the server keeps running.
killed() {
  start_server one
  BPS_SERVERS=$SERVER_ADDRESS start_ranks 2 "$BIN/bps-perf" -b 1M -e 1M -n 1 -w 0 -c 0 -N 0
  wait_for 60 in_loop 0 || fail "rank 0 does not start: $(tail -qn 3 "$WORK/rank0.out" "$WORK/rank0.err")"
  kill -KILL "${RANK_PIDS[1]}"
  ends_with_error 0 "rank 1" 60
  gone "$SERVER_PID" && fail "the server died: $(tail -qn 3 "$WORK/one.err")"
  return 0
}

# Two at a time, because there are two CPUs.
(conformance) &
(
  settings && done_with settings
  gpu_memory && gpu_all_reduce && done_with "GPU memory"
  all_reduce && done_with all-reduce
  killed && done_with "a killed rank"
) &
wait -n || exit 1
wait -n || exit 1
[ "$long" = 1 ] || exit 0
ip link set roce0 down
says 'rxe0:1 is not used: its state is DOWN' BPS_SOCKET_IFNAME=lo

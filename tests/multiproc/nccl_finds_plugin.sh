#!/usr/bin/env bash
# The installed NCCL finds bps's plugin by its own rules, uses it as a communicator's network and for its bootstrap,
# connects all channels over it and closes them. The processes act as machines without a GPU: tests/no_gpu replaces the
# CUDA runtime that libnccl links. No kernel runs, so no collective does. BPS_TEST_LIBNCCL names the library, if it is
# not in a usual place.
BUILD=$1; . "$(dirname "$0")/lib.sh"
rank=$BUILD/tests/no_gpu/nccl_rank
[ -x "$rank" ] || fail "$rank is not built"
libnccl=${BPS_TEST_LIBNCCL:-$(compgen -G '/usr/local/cuda*/lib*/libnccl.so.2' | sort -V | tail -n 1)}
[ -n "$libnccl" ] || libnccl=$(ldconfig -p | sed -n 's,.*libnccl\.so\.2 .*=> ,,p' | head -n 1)
[ -n "$libnccl" ] || skip "no libnccl.so.2 (BPS_TEST_LIBNCCL names one elsewhere)"

stubs=$(realpath "$BUILD/tests/no_gpu") lib=$(realpath "$BUILD/lib")
for name in $(compgen -e | grep '^NCCL_'); do unset "$name"; done
export NCCL_DEBUG=INFO NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_RAS_ENABLE=0 NCCL_CUMEM_ENABLE=0
# The bootstrap uses the plugin too; all connections are made at once, not when a kernel first needs them.
export NCCL_OOB_NET_ENABLE=1 NCCL_RUNTIME_CONNECT=0

# communicator N PLUGIN [DIRECTORY]: N processes make one, with NCCL_NET_PLUGIN=PLUGIN and the directory searched.
communicator() {
  local n=$1 pids=() status=0 ended
  rm -f "$WORK/id"
  for ((r = 0; r < n; r++)); do
    NCCL_HOSTID=machine$r NCCL_NET_PLUGIN=$2 LD_LIBRARY_PATH=$stubs${3:+:$3} \
      timeout 60 "$rank" "$libnccl" $r "$n" "$WORK/id" > "$WORK/nccl$r" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || { ended=$?; [ $status = 77 ] || status=$ended; }; done
  [ $status != 77 ] || skip "$libnccl: $(tail -n 1 "$WORK/nccl0")"
  [ $status = 0 ] || fail "NCCL_NET_PLUGIN=$2, $n ranks: status $status: $(tail -n 20 "$WORK"/nccl?)"
}
says() { grep -qE "$1" "$WORK/nccl0"; }

# Without a plugin or its symbols, NCCL uses its own network, so the expected line does not always appear.
communicator 1 bps
says 'Using network bps' && fail "a plugin that cannot be found was found"
communicator 1 "$lib/libbps.so" "$lib"
says 'Using network bps' && fail "a library without the plugin's symbols was used"

communicator 3 bps "$lib"
for pattern in 'Using network bps' 'Channel 00.* via NET/bps/0' 'Connected all rings' 'Init COMPLETE'; do
  says "$pattern" || fail "NCCL does not print \"$pattern\": $(grep -E 'NET|Using|WARN' "$WORK/nccl0")"
done
echo "  $libnccl: $(sed -nE 's/.*(NCCL version [0-9.]+).*/\1/p' "$WORK/nccl0" | head -n 1), $(
  sed -nE 's/.*(Loaded net plugin bps \(v[0-9]+\)).*/\1/p' "$WORK/nccl0" | head -n 1)"

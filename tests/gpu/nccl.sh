# The steps that need NCCL; run.sh includes this file. They use the NCCL that BPS_NCCL_LIB_PATH names, that of PyTorch, or
# that of the linker. The settings below make NCCL treat two ranks of one GPU as two machines.
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0 NCCL_RAS_ENABLE=0 NCCL_MAX_NCHANNELS=2 NCCL_NET_GDR_LEVEL=LOC
wheel=$(python3 -c 'import nvidia.nccl; print(nvidia.nccl.__path__[0] + "/lib/libnccl.so.2")' 2>/dev/null)
given=()
[ -n "${BPS_NCCL_LIB_PATH:-}" ] || ! [ -e "$wheel" ] || given=(BPS_NCCL_LIB_PATH="$wheel")
bytes=$((largest / 4))
preload=(LD_PRELOAD="$build/lib/libbps-nccl.so" BPS_DEBUG=INFO)
by_nccl() { step "$1" "${two[@]}" env "${given[@]}" "${@:3}" "$build/tests/gpu_ranks" "$2" "$bytes"; }
found() { grep -oh "$1" "$work/err" | head -n 1 | sed 's/ ([^ ]*\/[^ ]*)$//'; }
# under_preload TITLE SCENARIO [VARIABLE=VALUE...]: also checks that bps served calls, and adds its terms to the table.
under_preload() {
  by_nccl "$1" "$2" "${preload[@]}" "${@:3}" || return
  local served terms
  served=$(found 'rank 0 of 2: [0-9]* all-reduces ([0-9]* bytes) by bps')
  terms=$(found 'NCCL communicator of 2 ranks on 2 machines: [^/]*')
  [ -z "$terms" ] || row "$1" "${terms% (}"
  case ${served:-none} in
    # A measurement may find that NCCL is faster; then bps serves nothing, and says why.
    none | *": 0 all-reduces"*) [ $# = 2 ] && [ -n "$terms" ] || failed "$1" "bps served nothing" ;;
    *) row "$1" "$served" ;;
  esac
}

title="ranks of one machine, a GPU each (optional)"
if [ -z "$why" ] && [ "$gpus" -lt 2 ]; then skipped "$title" "it needs two GPUs"
elif step "$title" "$build/bin/bps-run" -n 2 -m 2 -s 1 -- env "${given[@]}" BPS_DEBUG=INFO "$build/tests/gpu_ranks" gpu-groups "$bytes"; then
  row "$title" "$(found 'device memory inside machines: .*')"
fi
by_nccl "kernels of NCCL go on" beside
by_nccl "NCCL over its sockets" nccl
title="NCCL over our net plugin"
if by_nccl "$title" nccl NCCL_NET_PLUGIN=bps LD_LIBRARY_PATH="$build/lib:${LD_LIBRARY_PATH:-}" \
  NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET NCCL_DEBUG_FILE="$work/nccl.%p"; then
  grep -qi 'NCCL INFO.*\(plugin.*bps\|network bps\)' "$work"/nccl.* 2>/dev/null || row "$title" "NCCL does not say that it used it"
fi
under_preload "the same program under LD_PRELOAD" nccl BPS_NCCL_MIN_BYTES=64K
under_preload "the first call measures NCCL and bps" nccl
by_nccl "groups of 32 all-reduces, by NCCL" groups
under_preload "groups of 32 all-reduces, under LD_PRELOAD" groups BPS_NCCL_MIN_BYTES=64K
by_nccl "non-blocking communicator, by NCCL" non-blocking
under_preload "non-blocking communicator, under LD_PRELOAD" non-blocking BPS_NCCL_MIN_BYTES=64K

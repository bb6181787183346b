#!/bin/bash
# Runs all tests that need a real GPU. Usage: run.sh [BUILD [FILE]]. Without an NVIDIA driver, the script prints
# "skipped: no NVIDIA driver". The script writes the results and the skipped steps to FILE (docs/gpu-results.md by
# default), between the comments "results" and "end of results". The exit status is 0 if no step failed, whatever the
# figures are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}") file=${2:-docs/gpu-results.md}
if [[ "$(nvidia-smi -L 2>/dev/null)" != GPU* ]]; then
  echo "skipped: no NVIDIA driver"
  exit 0
fi
largest=${GPU_TEST_LARGEST:-268435456} # bytes
work=$(mktemp -d)
export BPS_TIMEOUT=${BPS_TIMEOUT:-60} # in seconds; the first use of a GPU may take long
trap 'rm -rf "$work"' EXIT
status=0 rows=()
row() { rows+=("| $1 | ${2//|/,} |"); echo "-- $1: $2"; }

# step TITLE COMMAND...: runs the command and adds rows for its outcome and for each figure that it prints.
step() {
  local title=$1 got line; shift
  echo "== $title: $*"
  timeout -k 5 "${limit:-240}" "$@" >"$work/out" 2>"$work/err"
  got=$?
  case $got in
    0) grep -q '^figure: ' "$work/out" || row "$title" right ;;
    77) row "$title" "$(grep -m 1 '^skipped' "$work/out")"; return ;;
    *) status=1; row "$title" "FAILED, status $got"; tail -n 30 "$work/out" "$work/err" ;;
  esac
  while read -r line; do row "$title" "${line#figure: }"; done < <(grep '^figure: ' "$work/out")
}
ranks() { # COMMAND...: prints the command line that runs COMMAND on two machines and a server
  echo "$build/bin/bps-run" -n 2 -s 1 -- "$@"
}

row bps "$(git log -1 --format='commit %h' 2>/dev/null || echo 'commit not known'), run on $(date -u +%F)"
row GPU "$(nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.max,pcie.link.width.max --format=csv,noheader | head -n 1)"

step "streams, events, the same bits as on the host" "$build/tests/gpu"
one_queue=(env CUDA_DEVICE_MAX_CONNECTIONS=1 CUDA_DEVICE_MAX_COPY_CONNECTIONS=1) # a waiting stream blocks the others
step "one queue of the device" "${one_queue[@]}" "$build/tests/gpu" --gtest_filter='Gpu.CompletesCallsOnManyStreams'
step "one queue of the device, two processes" "${one_queue[@]}" $(ranks "$build/bin/bps-perf" -b 8 -e $((largest / 4)) -f 8 -n 3 -m 4)
step "all types, 8 B to $largest B" $(ranks "$build/bin/bps-perf" -b 8 -e "$largest" -f 8 -d all -n 3)
step "figures" $(ranks "$build/tests/gpu_ranks" figures "$largest")

# The tests use the NCCL that BPS_NCCL_LIB_PATH names, that of PyTorch, or that of the linker. The settings below make
# NCCL treat two ranks of one GPU as two machines.
export NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0 NCCL_RAS_ENABLE=0 NCCL_MAX_NCHANNELS=2 NCCL_NET_GDR_LEVEL=LOC
wheel=$(python3 -c 'import nvidia.nccl; print(nvidia.nccl.__path__[0] + "/lib/libnccl.so.2")' 2>/dev/null)
given=()
[ -n "${BPS_NCCL_LIB_PATH:-}" ] || ! [ -e "$wheel" ] || given=(BPS_NCCL_LIB_PATH="$wheel")
by_nccl() { step "$1" $(ranks env "${given[@]}" "${@:3}" "$build/tests/gpu_ranks" "$2" $((largest / 4))); }
gpus=$(nvidia-smi -L | grep -c '^GPU') title="ranks of one machine, a GPU each"
if [ "$gpus" -lt 2 ]; then row "$title" "skipped: it needs two GPUs"
else
  step "$title" "$build/bin/bps-run" -n 2 -m 2 -s 1 -- env "${given[@]}" BPS_DEBUG=INFO "$build/tests/gpu_ranks" gpu-groups $((largest / 4))
  row "$title" "$(grep -oh 'device memory inside machines: .*' "$work/err" | head -n 1 | sed 's/ ([^ ]*\/[^ ]*)$//')"
fi
by_nccl "kernels of NCCL go on" beside
by_nccl "NCCL over its sockets" nccl
by_nccl "NCCL over our net plugin" nccl NCCL_NET_PLUGIN=bps LD_LIBRARY_PATH="$build/lib:${LD_LIBRARY_PATH:-}" \
  NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET NCCL_DEBUG_FILE="$work/nccl.%p"
grep -qi 'NCCL INFO.*\(plugin.*bps\|network bps\)' "$work"/nccl.* 2>/dev/null || row "NCCL over our net plugin" "NCCL does not say that it used it"
by_nccl "the same program under LD_PRELOAD" nccl LD_PRELOAD="$build/lib/libbps-nccl.so" BPS_NCCL_MIN_BYTES=64K BPS_DEBUG=INFO
served=$(grep -oh 'rank 0 of 2: [0-9]* all-reduces ([0-9]* bytes) by bps' "$work/err" | head -n 1)
row "the same program under LD_PRELOAD" "${served:-FAILED: bps served nothing}"
terms=$(grep -oh 'NCCL communicator of 2 ranks on 2 machines: [^/]*' "$work/err" | head -n 1 | sed 's/ ($//')
[ -z "$terms" ] || row "the same program under LD_PRELOAD" "$terms"
[ -n "$served" ] || grep -q '^skipped' "$work/out" || status=1

if ! command -v compute-sanitizer >/dev/null; then row compute-sanitizer "skipped: not installed"
elif timeout -k 5 120 compute-sanitizer "$build/tests/gpu" --gtest_filter=Gpu.CompletesCallsOnManyStreams 2>&1 | grep -q 'Device not supported'; then
  row compute-sanitizer "skipped: it refuses this device"
else step compute-sanitizer compute-sanitizer --error-exitcode 9 "$build/tests/gpu" --gtest_filter='Gpu.GivesTheSameBits*'; fi

. tests/gpu/ddp.sh

[ -e "$file" ] || printf '<!-- results -->\n<!-- end of results -->\n' >"$file"
{ printf '\n| step | result |\n|---|---|\n'; printf '%s\n' "${rows[@]}"; echo; } >"$work/table"
awk -v table="$work/table" '/^<!-- end of results -->/ { skip = 0 } !skip { print }
  /^<!-- results -->/ { skip = 1; while ((getline line < table) > 0) print line }' "$file" >"$work/file" && cp "$work/file" "$file"
echo "results are in $file"
exit $status

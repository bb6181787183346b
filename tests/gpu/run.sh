#!/bin/bash
# Runs all tests that need a real GPU and prints one table of their results. Usage:
#   run.sh [BUILD [FILE]]   in the repository; the results also go to FILE (docs/gpu-results.md by default)
#   run.sh [FILE]           in the kit of `make gpu-kit`, from any directory (FILE is ./gpu-results.md by default)
# FILE is written only if there is a GPU, between the comments "results" and "end of results".
#
# Exit status, whatever the figures are:
#   0   every row that matters is right
#   1   a row failed
#   3   no row failed, but a row that matters was skipped. All rows matter except those marked "optional": several GPUs,
#       which not every machine has, and compute-sanitizer.
#   77  all rows were skipped, because there is no NVIDIA driver or no GPU
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
if [ -x "$here/bin/bps-run" ]; then
  build=$here file=${1:-gpu-results.md} example=$here/ddp.py
  # The kit has its own libgomp. The directory holds nothing else, so that NCCL finds no library of bps by chance.
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$here/lib/gomp"
else
  build=$(realpath "${1:-$here/../../build}") file=${2:-$here/../../docs/gpu-results.md} example=$here/../../examples/ddp.py
fi
[ -x "$build/bin/bps-run" ] || { echo "$build/bin/bps-run is missing: run \"make\", or copy the kit whole"; exit 1; }
largest=${GPU_TEST_LARGEST:-268435456} # bytes
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export BPS_TIMEOUT=${BPS_TIMEOUT:-60} # in seconds; the first use of a GPU may take long
status=0 missed=0 rows=()
row() { rows+=("| $1 | ${2//|/,} |"); echo "-- $1: $2"; }
failed() { status=1; row "$1" "FAILED: $2"; }
skipped() { # TITLE WHY
  row "$1" "skipped: $2"
  case $1 in *"(optional)") ;; *) missed=1 ;; esac
}

# nvidia-smi may print GPUs and fail, if one of them has an error. It may also fail and print its error to standard output.
listing=$(timeout -k 5 60 nvidia-smi -L 2>&1)
smi_status=$?
gpus=$(awk '/^GPU [0-9]+:/ && !/[Ee]rror/ { n++ } END { print n + 0 }' <<<"$listing")
why=""
[ "$gpus" -gt 0 ] || why="no NVIDIA driver or no GPU (nvidia-smi -L: status $smi_status, ${listing%%$'\n'*})"
command -v nvidia-smi >/dev/null || why="no NVIDIA driver (nvidia-smi is not installed)"

# step TITLE COMMAND...: runs the command and adds rows for its outcome and for each figure that it prints. Returns 0 if
# the command was successful.
step() {
  local title=$1 got line; shift
  [ -z "$why" ] || { skipped "$title" "$why"; return 77; }
  echo "== $title: $*"
  timeout -k 5 "${limit:-240}" "$@" >"$work/out" 2>"$work/err"
  got=$?
  case $got in
    0) grep -q '^figure: ' "$work/out" || row "$title" right ;;
    77) line=$(grep -m 1 '^skipped' "$work/out"); skipped "$title" "${line#skipped: }"; return 77 ;;
    *) failed "$title" "status $got"; tail -n 30 "$work/out" "$work/err"; return 1 ;;
  esac
  while read -r line; do row "$title" "${line#figure: }"; done < <(grep '^figure: ' "$work/out")
}
two=("$build/bin/bps-run" -n 2 -s 1 --) # two machines and a server
perf=("$build/bin/bps-perf" -b 8 -f 8 -n 3)
ranks() { step "$1" "${two[@]}" "$build/tests/gpu_ranks" "$2" "${3:-$((largest / 4))}"; }

row bps "$(cat "$here/commit" 2>/dev/null || git -C "$here" log -1 --format='commit %h' 2>/dev/null || echo 'commit not known'), run on $(date -u +%F)"
if [ -z "$why" ]; then
  fields=name,driver_version,pcie.link.gen.max,pcie.link.width.max
  row GPU "$gpus; $(nvidia-smi --query-gpu=$fields --format=csv,noheader 2>/dev/null | head -n 1)"
  [ $smi_status = 0 ] || failed nvidia-smi "status $smi_status, $(grep -vm 1 '^GPU [0-9]*:.*UUID' <<<"$listing")"
fi

step "streams, events, the same bits as on the host" "$build/tests/gpu"
one_queue=(env CUDA_DEVICE_MAX_CONNECTIONS=1 CUDA_DEVICE_MAX_COPY_CONNECTIONS=1) # a waiting stream blocks the others
step "one queue of the device" "${one_queue[@]}" "$build/tests/gpu" --gtest_filter='Gpu.CompletesCallsOnManyStreams'
step "one queue of the device, two processes" "${one_queue[@]}" "${two[@]}" "${perf[@]}" -e $((largest / 4)) -m 4
step "all types, 8 B to $largest B" "${two[@]}" "${perf[@]}" -e "$largest" -d all
ranks figures figures "$largest"
limit=60
ranks "first kernel launch behind an all-reduce" first-launch
ranks "cuMemFree behind an all-reduce" free
ranks "a captured stream is refused" capture
ranks "fork beside a communicator" fork
unset limit

. "$here/nccl.sh"

title="compute-sanitizer (optional)" sanitizer=(compute-sanitizer --error-exitcode 9 "$build/tests/gpu")
refuses() { timeout -k 5 120 "${sanitizer[@]}" --gtest_filter=Gpu.CompletesCallsOnManyStreams 2>&1 | grep 'Device not supported' >/dev/null; }
if [ -z "$why" ] && ! command -v compute-sanitizer >/dev/null; then skipped "$title" "not installed"
elif [ -z "$why" ] && refuses; then skipped "$title" "it refuses this device"
else step "$title" "${sanitizer[@]}" --gtest_filter='Gpu.GivesTheSameBits*'; fi

. "$here/ddp.sh"

{ printf '\n| step | result |\n|---|---|\n'; printf '%s\n' "${rows[@]}"; echo; } | tee "$work/table"
[ -z "$why" ] || { echo "all rows were skipped: $why"; exit 77; }
[ -e "$file" ] || printf '<!-- results -->\n<!-- end of results -->\n' >"$file"
awk -v table="$work/table" '/^<!-- end of results -->/ { skip = 0 } !skip { print }
  /^<!-- results -->/ { skip = 1; while ((getline line < table) > 0) print line }' "$file" >"$work/file" && cp "$work/file" "$file" || exit 1
echo "results are in $file"
[ $status = 0 ] || exit 1
[ $missed = 0 ] || { echo "rows that matter were skipped"; exit 3; }

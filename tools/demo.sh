#!/bin/bash
# `make run` runs this script. It runs a real all-reduce with real summation servers on this machine, and checks the
# result bit for bit.
# Usage: demo.sh [BUILD]. The exit status is 0 if every step ran and every result was right.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
run=$build/bin/bps-run perf=$build/bin/bps-perf
workers=4 servers=2
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
wrong=$logs/wrong

title() { printf '\n=== %s\n' "$1"; }
bad() { echo "demo: WRONG: $1" | tee -a "$wrong"; }

# show NAME COMMAND...: prints the command, runs the command and stores its output in $logs/NAME.
show() {
  local name=$1 status
  shift
  echo "\$ $*"
  timeout 120 "$@" 2>&1 | tee "$logs/$name"
  status=${PIPESTATUS[0]}
  [ "$status" = 0 ] || bad "status $status of: $*"
}

# rows NAME: prints the rows of a table. The columns are size, count, type, operation and root, followed by two
# groups of time, algbw, busbw and #wrong.
rows() { grep -E '^ +[0-9]+ +[0-9]+ +[a-z0-9]+ ' "$logs/$1"; }
# microseconds NAME SIZE: prints the smaller of the two times in the row for SIZE.
microseconds() { rows "$1" | awk -v size="$2" '$1 == size { print $6 < $10 ? $6 : $10 }'; }

title "1. All-reduce among $workers workers, with $servers summation servers (each its own process)"
show table "$run" -n $workers -s $servers -- "$perf" -b 1K -e 16M -f 4 -n 10
[ "$(rows table | wc -l)" -ge 8 ] || bad "the table has too few rows"
rows table | awk '$9 != 0 || $13 != 0 { bad = 1 } END { exit bad }' || bad "elements with a wrong value"
grep -q '^# Out of bounds values : 0 OK' "$logs/table" || bad "no \"# Out of bounds values : 0 OK\""

title "2. The gradients of a real network: ResNet-50, per tensor and in buckets"
show model "$run" -n $workers -s $servers -- "$perf" --model resnet50 --backward-order -n 2 -w 1

title "3. Gradients of a network trained on handwritten digits, against their sum in double precision"
digits=tests/data/digits
show digits "$run" -n 4 -s $servers -- "$perf" --tensors "$digits/grads_%r.safetensors" -n 5 -w 1 \
  --compare "$digits/expected_sum.safetensors"

title "4. The same without servers (k = 0): the same bits, a different time"
show model0 "$run" -n $workers -s 0 -- "$perf" --model resnet50 --backward-order -n 2 -w 1 | grep -E '^\$|^# checksum|^#? *(per tensor|buckets)|^demo'
checksum() { grep '^# checksum' "$logs/$1"; }
[ -n "$(checksum model)" ] && [ "$(checksum model)" = "$(checksum model0)" ] || bad "ResNet-50's sum differs from that with $servers servers"
show without "$run" -n $workers -s 0 -- "$perf" -b 16M -e 16M -n 10 | grep -vE '^#( |$)'
grep -q '^# Out of bounds values : 0 OK' "$logs/without" || bad "elements with a wrong value, k = 0"
size=$((16 << 20))
with=$(microseconds table $size) without=$(microseconds without $size)
if [ -n "$with" ] && [ -n "$without" ]; then
  awk -v a="$with" -v b="$without" -v k=$servers 'BEGIN {
    printf "16 MiB: %.1f ms with k = %d, %.1f ms with k = 0: %.2f times as fast here,\n", a / 1e3, k, b / 1e3, b / a
    print "where all processes share one machine. With one NIC per machine, the bound is:" }'
  "$build/bin/bps-topo" plan --workers $workers --servers $servers --bytes 16M --worker-gbps 10 --server-gbps 10 || bad "bps-topo"
else
  bad "no time for 16 MiB to compare"
fi

if [ -e "$wrong" ]; then
  title "Something is wrong:"
  cat "$wrong"
  exit 1
fi
title "All results are right."

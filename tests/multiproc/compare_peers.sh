#!/usr/bin/env bash
# perf/compare_peers without any peer: its help, its usage errors, and its report of missing peers. With fake drivers
# that print given times: the table. Usage: compare_peers.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || skip "no python3"
COMPARE="$(dirname "$0")/../../perf/compare_peers"

# fake NAME TEXT: makes a driver that prints TEXT; bps and Gloo start one process per rank.
fake() {
  mkdir -p "$WORK/build/peers"
  printf '#!/bin/sh\ncat <<END\n%s\nEND\n' "$2" > "$WORK/build/peers/$1"
  chmod +x "$WORK/build/peers/$1"
}
# run STATUS OPTION...: runs with the fake drivers; the output is in out and err.
run() {
  local wanted=$1; shift
  "$COMPARE" --build "$WORK/build" "$@" > "$WORK/out" 2> "$WORK/err"
  local status=$?
  [ $status = "$wanted" ] || fail "$*: status $status, not $wanted: $(cat "$WORK/out" "$WORK/err")"
}
# refuses TEXT OPTION...: prints one line on stderr that has TEXT, and the status is 2.
refuses() {
  local text=$1; shift
  run 2 "$@"
  [ "$(wc -l < "$WORK/err")" = 1 ] && grep -qF -- "$text" "$WORK/err" || fail "$*: $(cat "$WORK/err")"
}

run 0 --help
grep -q -- "--loopback" "$WORK/out" && grep -q "exit status" "$WORK/out" || fail "--help: $(cat "$WORK/out")"

refuses "peers/bps is not there: run make peers" --loopback
fake bps '{"bytes": 1024, "calls": 9, "micros": 30}'
refuses "give either --loopback or --cluster"
refuses "give either --loopback or --cluster" --loopback --cluster
refuses "'udp' is not a way between processes: tcp, shm" --loopback udp
refuses "'3' is not a whole number from 5" --loopback --repeat 3
refuses "'1' is not a whole number from 2" --loopback -n 1
refuses "'7' is not a size in bytes, a multiple of 4" --loopback --sizes 7
refuses "'nccl' is not a peer: open_mpi, gloo" --loopback --peers nccl
refuses "-k is for --cluster" --loopback -k 1
refuses "-r is for --cluster" --loopback -r 1G
refuses "--burst is for --cluster" --loopback --burst 1600

run 77 --loopback
for name in "Open MPI: there is no" "Gloo: there is no"; do
  grep -q "^# missing: $name .*peers/.*then make peers" "$WORK/out" || fail "not reported as missing: $name"
done
grep -q "skipped: none of the peers is there: Open MPI, Gloo" "$WORK/err" || fail "no peer: $(cat "$WORK/err")"

# bps takes 30 us. Gloo takes 20 us with one algorithm and 40 us with the others; the ratio refers to the fastest.
fake gloo "\$(case \$7 in bcube) t=20;; *) t=40;; esac; echo \"{\\\"bytes\\\": 1024, \\\"calls\\\": 9, \\\"micros\\\": \$t}\")"
run 0 --loopback tcp -n 2 --sizes 1K --peers gloo --json "$WORK/result.json"
grep -qF '| 1 KiB | 0 | 30.0 [30.0, 30.0] | 20.0 [20.0, 20.0] bcube | 1.50 [1.50, 1.50] |' "$WORK/out" || fail "$(cat "$WORK/out")"
python3 - "$WORK/result.json" <<'PYTHON' || fail "$(cat "$WORK/result.json")"
import json, sys
place, = json.load(open(sys.argv[1]))["places"]
row, = place["rows"]
sys.exit(row["bps"] != [30] * 5 or row["peers"]["gloo"] != {"algorithm": "bcube", "micros": [20] * 5, "ratios": [1.5] * 5}
         or len(place["candidates"]) != 6)
PYTHON

# An algorithm that fails is named and excluded; the others are measured.
fake gloo "\$([ \$7 = ring ] && echo broken || echo '{\"bytes\": 1024, \"calls\": 9, \"micros\": 60}')"
run 1 --loopback tcp -n 2 --sizes 1K --peers gloo
grep -q "FAILED: Gloo ring, 2 ranks on one machine, TCP" "$WORK/err" || fail "no failure named: $(cat "$WORK/err")"
grep -q '| 60.0 \[60.0, 60.0\] [a-z_]* | 0.50 \[' "$WORK/out" || fail "the others: $(cat "$WORK/out")"

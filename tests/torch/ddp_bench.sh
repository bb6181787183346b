#!/usr/bin/env bash
# perf/ddp_bench with two workers and a small network: its rows, its results, its errors, and complete cleanup, also
# after an interrupt. Usage: ddp_bench.sh BUILD
BUILD=$1; . "$(dirname "$0")/../multiproc/lib.sh"
unset BPS_SOCKET_IFNAME BPS_TIMEOUT BPS_KEY_FILE
command -v python3 >/dev/null || skip "no python3"
BENCH="$(dirname "$0")/../../perf/ddp_bench"

# run OPTION...: starts it in the background; its pid is in the names of everything that it creates.
run() {
  "$BENCH" --build "$BUILD" --quick "$@" > "$WORK/out" 2> "$WORK/err" &
  PID=$!
  PIDS+=("$PID")
}
namespaces() { ip netns list | grep -c "^bpsec-$PID-"; }
processes() { pgrep -fc "bpsec-$PID-"; }
trains() { pgrep -f "rank.py .*bpsec-$PID-" > /dev/null; }
nothing_left() {
  [ "$(namespaces)" = 0 ] || fail "$1: $(namespaces) namespaces are left"
  wait_for 5 [ "$(processes)" = 0 ] || fail "$1: $(processes) processes are left"
  ! compgen -G "${TMPDIR:-/tmp}/bpsec-$PID-*" > /dev/null || fail "$1: a directory is left"
}

# A usage error is one line that names the error: refuses ERROR OPTION...
refuses() {
  "$BENCH" --build "$BUILD" "${@:2}" > "$WORK/out" 2> "$WORK/err"
  status=$?
  [ $status = 2 ] || fail "${*:2}: status $status"
  [ "$(wc -l < "$WORK/err")" = 1 ] && grep -q -- "$1" "$WORK/err" || fail "${*:2}: $(cat "$WORK/err")"
}
refuses "'fast' is not a rate" -r fast
refuses "--model: invalid choice: 'alexnet'" --model alexnet
refuses "--batch: '1' is not a whole number from 2" --batch 1
refuses "--size: '0.5' is not a number from 1 to 200" --size 0.5
refuses "'nccl' is not a backend (gloo, bps, mpi)" --backends gloo,nccl
refuses "--bucket-mb: 'x' is not a number" --bucket-mb 25,x
refuses "--no-sync: '0' is not a whole number from 1 to 64" --no-sync 0
refuses "--round-robin: '9' is not a whole number from 1 to 8" --round-robin 1,9
refuses "'figure.pdf' does not end in .png or .svg" --plot figure.pdf
refuses "--json /no/such/x.json: /no/such is not a directory" --json /no/such/x.json
refuses "bps-server is not there" --build "$WORK"

BPS_TORCH_PYTHON=/bin/false "$BENCH" --build "$BUILD" --quick > "$WORK/out" 2> "$WORK/err"
status=$?
[ $status = 77 ] && grep -q "skip: no torch" "$WORK/err" || fail "without torch: status $status: $(cat "$WORK/err")"

run --json "$WORK/result.json"
wait "$PID"
status=$?
[ $status = 77 ] && skip "$(tail -n 1 "$WORK/err")"
[ $status = 0 ] || fail "status $status: $(cat "$WORK/err")"
nothing_left "after a run"
grep -q "skip: bps:" "$WORK/out" && skip "$(grep "skip: bps:" "$WORK/out")"
grep -q "the same bits on all ranks and for all 2 numbers of servers" "$WORK/out" || fail "no check: $(cat "$WORK/out")"
python3 - "$WORK/result.json" <<'PYTHON' || fail "the numbers: $(cat "$WORK/out")"
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
ok = [(row["backend"], row["k"]) for row in rows] == [("gloo", 0), ("bps", 0), ("bps", 1)]
for row in rows:
    least = row["parameter_bytes"] / (200e6 / 8)  # with two workers each NIC carries all bytes once
    if not 0.9 * least < row["median"]["communication"]:
        print(f"{row['backend']}: the all-reduces take {row['median']['communication']:.3f} s, at least {least:.3f} s: "
              "they do not use the links")
        ok = False
    ok = ok and len(row["losses"]) == 5 and len(set(row["losses"])) > 1 and len(row["times"]["iteration"]) == 3
sys.exit(not ok)
PYTHON

run --iters 1000 --backends bps -k 0
wait_for 30 trains || fail "no rank trains: $(cat "$WORK/err")"
kill -INT "$PID"
wait "$PID"
status=$?
[ $status = 130 ] || fail "interrupted: status $status: $(cat "$WORK/err")"
nothing_left "after an interrupt"
echo ok

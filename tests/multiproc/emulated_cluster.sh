#!/usr/bin/env bash
# perf/emulated_cluster with two workers: its rows, the bytes of every NIC compared with the plan, and complete cleanup,
# also after an interrupt or a kill. Usage: emulated_cluster.sh BUILD
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_SOCKET_IFNAME BPS_TIMEOUT BPS_KEY_FILE
command -v python3 >/dev/null || skip "no python3"
CLUSTER="$(dirname "$0")/../../perf/emulated_cluster"
ALLOWED=/proc/sys/net/ipv4/tcp_allowed_congestion_control

# run OPTION...: starts it in the background; its pid is in the names of everything that it creates.
run() {
  "$CLUSTER" --build "$BUILD" -n 2 -r 200M "$@" > "$WORK/out" 2> "$WORK/err" &
  PID=$!
  PIDS+=("$PID")
}
namespaces() { ip netns list | grep -c "^bpsec-$PID-"; }
processes() { pgrep -fc "bpsec-$PID-"; }
measures() { pgrep -f "bps-perf .*bpsec-$PID-" > /dev/null; }
nothing_left() {
  [ "$(namespaces)" = 0 ] || fail "$1: $(namespaces) namespaces are left"
  wait_for 5 [ "$(processes)" = 0 ] || fail "$1: $(processes) processes are left"
  ! compgen -G "${TMPDIR:-/tmp}/bpsec-$PID-*" > /dev/null || fail "$1: a directory is left"
  [ "$(cat $ALLOWED)" = "$allowed" ] || fail "$1: the congestion controls that this machine allows are not as before"
}
allowed=$(cat $ALLOWED)

# A usage error is one line that names the error: refuses ERROR OPTION...
refuses() {
  "$CLUSTER" --build "$BUILD" -n 2 -k 0 -r 200M -b 1M "${@:2}" > "$WORK/out" 2> "$WORK/err"
  status=$?
  [ $status = 2 ] || fail "${*:2}: status $status"
  [ "$(wc -l < "$WORK/err")" = 1 ] && grep -q -- "$1" "$WORK/err" || fail "${*:2}: $(cat "$WORK/err")"
}
refuses "'fast' is not a rate" -r fast
refuses "--plot: '$WORK/plot.gif' ends with neither .svg nor .png" --plot "$WORK/plot.gif"
python3 -c 'import matplotlib' 2> /dev/null || refuses "plot.png' needs matplotlib" --plot "$WORK/plot.png"
refuses "--rtt: 'soon' is not a time from 0.01 to 1000 (ms" --rtt soon
refuses "--rtt: '0' is not a time" --rtt 0
refuses "--rtt: '1001' is not a time" --rtt 1001
refuses "--queue: '-5' is not a time from 0.1 to 10000 (ms" --queue=-5
refuses "--bcube and -n exclude each other" --bcube 2,2
refuses "--bcube: '1,2': N must be at least 2" --bcube 1,2
refuses "--one-nic needs --bcube" --one-nic
mkdir -p "$WORK/no_delay_line/bin"
ln -s "$(realpath "$BUILD")"/bin/bps-* "$WORK/no_delay_line/bin"
refuses "--rtt: .*delay-line is not there" --rtt 1 --build "$WORK/no_delay_line"

run -k 0,1 -b 1M --iters 5 --json "$WORK/result.json" --plot "$WORK/plot.svg"
wait "$PID"
status=$?
[ $status = 77 ] && skip "$(tail -n 1 "$WORK/err")"
[ $status = 0 ] || fail "status $status: $(cat "$WORK/err")"
nothing_left "after a run"
[ "$(grep -cE '^ +1048576 +[01] ' "$WORK/out")" = 2 ] || fail "not one row for each k: $(cat "$WORK/out")"
python3 - "$WORK/result.json" <<'PYTHON' || fail "the numbers: $(cat "$WORK/out")"
import json, sys
result = json.load(open(sys.argv[1]))
rows = result["rows"]
ok = [(row["k"], row["bytes"]) for row in rows] == [(0, 1 << 20), (1, 1 << 20)]
goodput = 8 * result["goodput_bytes_per_second"]["200000000"] / 200e6
if not 0.8 < goodput < 0.97:  # a frame of 1514 bytes carries 1448
    print(f"one TCP stream has {goodput:.3f} of the links' rate: they are not limited to it")
    ok = False
for row in rows:
    percents = [value for nic in row["nic_percent"] for value in nic.values()]
    # The shapers' buckets allow slightly more than the ideal.
    good = (len(row["seconds"]) >= 5 and 0 < row["least"] <= row["median"] <= row["most"] and 0 < row["percent"] < 110
            and len(percents) == 2 * (2 + row["k"]) and 97 < min(percents) and max(percents) < 104
            and len(row["server_cpu_seconds"]) == row["k"])
    ok = ok and good
    if not good:
        print({key: row[key] for key in ("k", "seconds", "percent", "nic_percent", "server_cpu_seconds")})
sys.exit(not ok)
PYTHON
"$(dirname "$0")/svg_texts.py" "$WORK/plot.svg" || fail "the picture of --plot"

# Each worker has two NICs, one at half the rate of the other. They carry the planned bytes to the other worker and to
# the server.
run -k 1 -b 2M --iters 5 --nics 1,0.5 --json "$WORK/result.json"
wait "$PID" || fail "two NICs: status $?: $(cat "$WORK/err")"
python3 - "$WORK/result.json" <<'PYTHON' || fail "two NICs: $(cat "$WORK/out")"
import json, sys
row = json.load(open(sys.argv[1]))["rows"][0]
percents = [value for nic in row["nic_percent"] for value in nic.values()]
if len(percents) != 2 * (2 * 2 + 1) or not 97 < min(percents) <= max(percents) < 104:
    sys.exit(f"percent of the plan's bytes: {percents}")
PYTHON

# With latency, the results and the bytes of the NICs stay right, and the measured round trip is the requested one.
latency=(--rtt 5)
if ! [ -w /dev/net/tun ]; then
  echo "(--rtt: skipped: no /dev/net/tun)"
  latency=()
else
  run -k 1 -b 1M --iters 5 --rtt 5 --queue 30 --json "$WORK/result.json"
  wait "$PID" || fail "--rtt: status $?: $(cat "$WORK/err")"
  nothing_left "after a run with --rtt"
  grep -q "^# round trip measured: 5\.[0-9]* ms" "$WORK/out" || fail "--rtt 5: $(cat "$WORK/out")"
  grep -q "^# queues of 30 ms.* 750000 bytes = 30 ms" "$WORK/out" || fail "--queue 30: $(cat "$WORK/out")"
  python3 - "$WORK/result.json" <<'PYTHON' || fail "--rtt 5: $(cat "$WORK/out")"
import json, sys
result = json.load(open(sys.argv[1]))
row = result["rows"][0]
percents = [value for nic in row["nic_percent"] for value in nic.values()]
if not 0.005 <= result["round_trip_seconds"] <= 1.1 * 0.005 + 0.0003:
    sys.exit(f"a round trip of {result['round_trip_seconds']} s")
if 8 * result["goodput_bytes_per_second"]["200000000"] < 0.8 * 200e6:
    sys.exit("a plain stream does not reach the links' rate")
if len(percents) != 6 or not 97 < min(percents) <= max(percents) < 104 or row["delay_line_cpu_seconds"] <= 0:
    sys.exit(f"percent of the plan's bytes: {percents}, CPU time: {row['delay_line_cpu_seconds']} s")
PYTHON
  # The reason for a skip names the missing device.
  if unshare -m mount -t tmpfs none /dev/net 2> /dev/null; then
    unshare -m sh -c 'mount -t tmpfs none /dev/net && exec "$@"' sh \
      "$CLUSTER" --build "$BUILD" -n 2 -k 0 -r 200M -b 4 --rtt 5 > "$WORK/out" 2> "$WORK/err"
    status=$?
    [ $status = 77 ] && grep -q "skipped: --rtt needs /dev/net/tun: No such file" "$WORK/err" ||
      fail "without /dev/net/tun: status $status: $(cat "$WORK/err")"
  fi
fi

run -k 1 -b 64M "${latency[@]}"
wait_for 15 measures || fail "bps-perf did not start: $(cat "$WORK/err")"
kill -INT "$PID"; kill -TERM "$PID"  # the second signal has no effect
wait "$PID"
status=$?
[ $status = 130 ] || fail "after SIGINT: status $status: $(cat "$WORK/err")"
nothing_left "after SIGINT"

# The next run removes the leftovers of a killed run.
run -k 1 -b 64M "${latency[@]}"
wait_for 15 measures || fail "bps-perf did not start: $(cat "$WORK/err")"
kill -KILL "$PID"
wait "$PID" 2>/dev/null
[ "$(namespaces)" -gt 0 ] || fail "a killed run leaves no namespaces: this test looks at the wrong ones"
killed=$PID
run -k 0 -b 4 --iters 5
wait "$PID" || fail "after a killed run: status $?: $(cat "$WORK/err")"
PID=$killed
nothing_left "after a killed run and another one"

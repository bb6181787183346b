#!/usr/bin/env bash
# bps-server as a service: the messages to the service manager, a log file that SIGHUP opens again, lines in JSON, names
# of threads, and the systemd unit.
BUILD=$1; . "$(dirname "$0")/lib.sh"
command -v python3 > /dev/null || skip "no python3"
UNIT=$(cd "$(dirname "$0")/../.." && pwd)/packaging/systemd/bps-server.service
export BPS_DEBUG_FILE=$WORK/server.log BPS_LOG_FORMAT=json BPS_DEBUG=INFO

# A service manager receives the datagrams, one per line in $WORK/messages.
cat > "$WORK/manager.py" << 'PY'
import os, socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1].replace("@", "\0") if sys.argv[1][0] == "@" else sys.argv[1])
print("bound", flush=True)
while True: print(manager.recv(4096).decode().replace("\n", " "), flush=True)
PY
said() { grep -qE -- "$1" "$2"; }
expect_said() { wait_for "${3:-5}" said "$1" "$2" || fail "no line \"$1\" in: $(cat "$2")"; }
# start_service ADDRESS: a manager at the address, and a server that knows it as $2.
start_service() {
  python3 "$WORK/manager.py" "$1" > "$WORK/messages" & manager=$!; PIDS+=("$manager")
  expect_said bound "$WORK/messages"
  NOTIFY_SOCKET=$2 WATCHDOG_USEC=400000 "$BIN/bps-server" --listen 127.0.0.1:0 > "$WORK/out" 2> "$WORK/err" &
  server=$!; PIDS+=("$server")
  expect_said '^READY=1 STATUS=serving 0 jobs $' "$WORK/messages"
  said '^listening on' "$WORK/out" || fail "ready before it listens: $(cat "$WORK/out" "$WORK/err")"
}
start_service "$WORK/notify" "$WORK/notify"
expect_said '^WATCHDOG=1 ' "$WORK/messages"
sleep 1
[ "$(grep -c WATCHDOG "$WORK/messages")" -ge 3 ] || fail "the watchdog gets too few messages: $(cat "$WORK/messages")"

# Names of threads.
names=$(cat "/proc/$server/task"/*/comm | sort -u | tr '\n' ' ')
for name in bps-server bps-lanes bps-closer bps-signals; do
  [[ " $names" == *" $name "* ]] || fail "no thread $name: $names"
done

# SIGHUP: a renamed file gets no further lines.
wait_for 5 test -s "$BPS_DEBUG_FILE" || fail "no log file"
mv "$BPS_DEBUG_FILE" "$WORK/old.log"
kill -HUP "$server"
expect_said '^RELOADING=1 MONOTONIC_USEC=[0-9]+ $' "$WORK/messages"
expect_said 'SIGHUP: read the key file again' "$BPS_DEBUG_FILE"
said SIGHUP "$WORK/old.log" && fail "the renamed file gets lines: $(cat "$WORK/old.log")"
[ "$(tail -n 1 "$WORK/messages" | grep -c '^READY\|^WATCHDOG')" = 1 ] || fail "not ready again: $(cat "$WORK/messages")"

# A job: the status line counts it, and each line of the log is one object.
BPS_SERVERS=$(sed -n 's/^listening on //p' "$WORK/out"); export BPS_SERVERS
env -u BPS_DEBUG_FILE -u BPS_LOG_FORMAT -u BPS_DEBUG BPS_HOSTID= "$BIN/bps-run" -n 2 -- "$BIN/bps-perf" -b 64K -e 64K -n 5 -c 0 > "$WORK/job" 2>&1 ||
  fail "$(tail -n 5 "$WORK/job")"
expect_said 'job [0-9a-f]{16} ended after' "$BPS_DEBUG_FILE"
python3 - "$BPS_DEBUG_FILE" "$WORK/old.log" "$server" << 'PY' || fail "$(cat "$BPS_DEBUG_FILE")"
import datetime, json, sys
for path in sys.argv[1:3]:
    for line in open(path, encoding="utf-8", errors="strict"):
        entry = json.loads(line)
        assert list(entry) == ["time", "host", "pid", "thread", "level", "subsystem", "text"], entry
        datetime.datetime.strptime(entry["time"], "%Y-%m-%dT%H:%M:%S.%f%z")
        assert entry["pid"] == int(sys.argv[3]) and entry["level"] in ("INFO", "WARN") and entry["text"]
PY

kill -TERM "$server"; wait "$server" || fail "exit $? on SIGTERM"
expect_said '^STOPPING=1 ' "$WORK/messages"
kill -KILL "$manager"; wait "$manager" 2> /dev/null

# A socket without a file, as containers and older systems use.
start_service "@bps-$$" "@bps-$$"
kill -TERM "$server"; wait "$server" || fail "exit $? on SIGTERM"
unset BPS_DEBUG_FILE BPS_LOG_FORMAT

# Wrong values are errors that name the variable.
for wrong in relative/path @ "/$(printf 'a%.0s' $(seq 120))"; do
  NOTIFY_SOCKET=$wrong timeout 10 "$BIN/bps-server" --listen 127.0.0.1:0 > "$WORK/wrong" 2>&1 && fail "NOTIFY_SOCKET=$wrong is accepted"
  said "^bps-server: NOTIFY_SOCKET=$wrong: " "$WORK/wrong" || fail "$(cat "$WORK/wrong")"
done
NOTIFY_SOCKET=/x WATCHDOG_USEC=soon timeout 10 "$BIN/bps-server" --listen 127.0.0.1:0 > "$WORK/wrong" 2>&1 && fail "WATCHDOG_USEC=soon"
said 'WATCHDOG_USEC=soon: not a positive number' "$WORK/wrong" || fail "$(cat "$WORK/wrong")"
BPS_LOG_FORMAT=xml timeout 10 "$BIN/bps-server" --listen 127.0.0.1:0 > "$WORK/wrong" 2>&1 && fail "BPS_LOG_FORMAT=xml"
said 'BPS_LOG_FORMAT=xml: .*text or json' "$WORK/wrong" || fail "$(cat "$WORK/wrong")"

# The unit. Its program is the one that was built.
command -v systemd-analyze > /dev/null || skip "no systemd-analyze: the unit is not checked"
sed "s|/usr/bin/bps-server|$(realpath "$BIN/bps-server")|; /^Documentation=/d" "$UNIT" > "$WORK/bps-server.service"
systemd-analyze verify --man=no "$WORK/bps-server.service" > "$WORK/verify" 2>&1
grep -F bps-server.service "$WORK/verify" && fail "systemd-analyze verify"
score=$(systemd-analyze security --offline=true "$WORK/bps-server.service" 2>&1 | sed -n 's/.*exposure level for [^:]*: \([0-9.]*\) .*/\1/p')
[ -n "$score" ] || skip "systemd-analyze has no offline score"
awk -v score="$score" 'BEGIN { exit !(score <= 2.5) }' || fail "exposure $score of 10, more than 2.5"
exit 0

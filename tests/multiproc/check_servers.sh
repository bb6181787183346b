#!/usr/bin/env bash
# bps-server --check prints one line for each server with its state or the error, and gives the exit status.
BUILD=$1; . "$(dirname "$0")/lib.sh"
export BPS_TIMEOUT=3

# check STATUS ARGUMENT...: runs the check; its lines are in $WORK/out.
check() {
  local want=$1 got started; shift
  started=$(now_ms)
  timeout 20 "$BIN/bps-server" --check "$@" > "$WORK/out" 2>&1
  got=$?
  [ $got = "$want" ] || fail "status $got instead of $want: --check $* printed: $(cat "$WORK/out")"
  [ $(( $(now_ms) - started )) -le 8000 ] || fail "--check $* took $(( $(now_ms) - started )) ms"
}
says() { grep -qE -- "$1" "$WORK/out" || fail "no line \"$1\": $(cat "$WORK/out")"; }
lines() { [ "$(wc -l < "$WORK/out")" = "$1" ] || fail "not $1 lines: $(cat "$WORK/out")"; }

start_server first
first=$SERVER_ADDRESS
good="version [0-9.]+, round trip [0-9]+ us, 0 of [0-9]+ jobs, [0-9.]+ .B/s summed, [0-9]+ MiB and [0-9]+ descriptors free, data over .*bps"
check 0 "$first"
says "^$first  ok: $good"
lines 1
start_server second
second=$SERVER_ADDRESS second_pid=$SERVER_PID
printf '%s\n%s # a comment\n' "$first" "$second" > "$WORK/servers"
check 0 "@$WORK/servers"
says "^$first  ok"
says "^$second  ok"
lines 2
BPS_SERVERS=$first,$second check 0
lines 2
check 1
says 'no server to check: .*BPS_SERVERS'

# Errors, also of one server among valid ones.
closed=127.0.0.1:$(free_port)
check 1 "$first,$closed"
says "^$first  ok"
says "^$closed  FAILED: cannot connect to $closed: Connection refused"
check 1 nowhere.invalid:7700
says '^nowhere.invalid:7700  FAILED: host "nowhere.invalid" cannot be found'
"$BIN/bps-server" --make-key "$WORK/other"
check 1 "$first" --key-file "$WORK/other"
says "^$first  FAILED: .*the key differs"
BPS_AUTH=off check 1 "$first"
says "^$first  FAILED: .*authentication is on here and off on the other side"
# The server logs the refused peer.
wait_for 5 grep -q WARN "$WORK/first.err" && : > "$WORK/first.err"

# stand_in WORDS: starts a listener that answers every connection with these bytes, or not at all. Sets STAND_IN.
stand_in() {
  rm -f "$WORK/stand_in"
  python3 - "$1" > "$WORK/stand_in" <<'PYTHON' &
import socket, struct, sys
words = sys.argv[1].encode()
if words == b"version 7":  # a server of another protocol version refuses
    text = b"protocol version 9, this side speaks 7; rebuild one side"
    body = struct.pack("<BiI", 1, 6, len(text)) + text
    words = struct.pack("<IHHQI", len(body), 5, 7, 0, 0) + body
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
kept = []
while True:
    kept.append(listener.accept()[0])
    kept[-1].sendall(words)
PYTHON
  PIDS+=($!)
  wait_for 10 test -s "$WORK/stand_in" || fail "the stand-in does not listen"
  STAND_IN=127.0.0.1:$(cat "$WORK/stand_in")
}
stand_in ''
check 1 "$STAND_IN"
says "^$STAND_IN  FAILED: $STAND_IN accepts connections but does not answer"
stand_in "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3"
check 1 "$STAND_IN"
says "^$STAND_IN  FAILED: .*not a peer of this protocol"
# A server of protocol version 7 refuses.
stand_in "version 7"
check 1 "$STAND_IN"
says "^$STAND_IN  FAILED: protocol version 9, this side speaks 7; rebuild one side"
# Data connections that fail.
FAULT_PLUGIN_SPEC=fail:connect=1 BPS_NET_PLUGIN=$(realpath "$BUILD")/tests/libnccl-net-fault.so check 1 "$first"
says "^$first  FAILED: it answers, but its data connections do not work: .*"
grep -q WARN "$WORK/first.err" && fail "a check makes the server warn: $(cat "$WORK/first.err")"
# A stopped server.
kill -STOP "$second_pid"
check 1 "$second"
says "^$second  FAILED: $second accepts connections but does not answer"
kill -CONT "$second_pid"

# A check during a job does not disturb the job.
BPS_SERVERS=$first BPS_REQUIRE_SERVERS=1 "$BIN/bps-run" -n 3 -- "$BIN/bps-perf" -b 1M -e 1M -n 40 -N 0 > "$WORK/job" 2>&1 &
job=$!
PIDS+=("$job")
wait_for 20 grep -qsE '^ +[0-9]+ +[0-9]+ ' "$WORK/job" || fail "the job does not start: $(tail -n 5 "$WORK/job")"
for _ in 1 2 3; do check 0 "$first"; done
says "^$first  ok: .* [1-9][0-9]* of [0-9]+ jobs, [0-9.]*[1-9][0-9.]* .B/s summed"
gone "$job" && fail "the job ended: $(tail -n 5 "$WORK/job")"
exit 0

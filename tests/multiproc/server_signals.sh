#!/usr/bin/env bash
# SIGTERM while unauthenticated peers connect, SIGHUP with a new key and with an invalid one, a log line for each job;
# ports and addresses as given; the metrics page without descriptors.
BUILD=$1; . "$(dirname "$0")/lib.sh"
perf() { "$BIN/bps-run" -n 2 -- "$BIN/bps-perf" -b 64K -e 64K -n 2 -w 0 "$@"; }
said() { grep -qE -- "$1" "$2"; }
expect_said() { wait_for 5 said "$1" "$2" || fail "no line \"$1\" in: $(cat "$2")"; }

# There is one line when a job begins and one when it ends, with time stamps, and no line of other subsystems.
start_server log; pid=$SERVER_PID; export BPS_SERVERS=$SERVER_ADDRESS BPS_REQUIRE_SERVERS=1
perf > "$WORK/out" 2>&1 || fail "$(tail -qn 5 "$WORK/out")"
stamp='^20[0-9-]+ [0-9:.]+ '
expect_said "${stamp}.*INFO SERVER job [0-9a-f]{16} begins: 2 ranks on 2 machines, 1 servers; hub rank 0" "$WORK/log.err"
expect_said "${stamp}.*INFO SERVER job [0-9a-f]{16} ended after [0-9.]+ s: all its calls are complete" "$WORK/log.err"

# SIGHUP: a running job continues, a new job needs the new key, and an invalid file changes nothing.
start_ranks 2 "$BIN/bps-perf" -b 64K -e 64K -n 20 -N 0 -c 0
wait_for 30 in_loop 0 || fail "no job runs: $(tail -qn 5 "$WORK"/rank0.*)"
cp "$WORK/key" "$WORK/old.key"
: > "$WORK/key"; kill -HUP "$pid"
expect_said 'SIGHUP: keeping the old key: .*key' "$WORK/log.err"
BPS_KEY_FILE=$WORK/old.key perf > "$WORK/out" 2>&1 || fail "after a bad key file: $(tail -qn 5 "$WORK/out")"
head -c 32 /dev/urandom > "$WORK/key"; kill -HUP "$pid"
expect_said 'SIGHUP: read the key file again' "$WORK/log.err"
BPS_KEY_FILE=$WORK/old.key perf > "$WORK/out" 2>&1 && fail "the old key still opens the server"
perf > "$WORK/out" 2>&1 || fail "the new key: $(tail -qn 5 "$WORK/out")"
lines=$(wc -l < "$WORK/rank0.out")
more() { [ "$(wc -l < "$WORK/rank0.out")" -gt "$((lines + 2))" ]; }
wait_for 10 more || fail "the job that ran does not go on: $(tail -qn 5 "$WORK"/rank0.*)"
for pid_of in "${RANK_PIDS[@]}"; do kill -KILL "$pid_of" 2>/dev/null; wait "$pid_of" 2>/dev/null; done

# A signal that the server uses itself has no effect if another process sends it.
kill -USR2 "$pid"

# SIGTERM ends the server at once while unauthenticated peers connect.
( while :; do exec 8<> "/dev/tcp/${SERVER_ADDRESS%:*}/${SERVER_ADDRESS#*:}" && printf 'no Hello at all, but long' >&8
  sleep .05; done ) 2> /dev/null & strangers=$!; PIDS+=("$strangers")
sleep .3
started=$(now_ms); kill -TERM "$pid"; wait "$pid" || fail "exit $? on SIGTERM"
[ $(( $(now_ms) - started )) -le 2000 ] || fail "SIGTERM took $(( $(now_ms) - started )) ms"
kill "$strangers" 2>/dev/null
expect_said 'INFO SERVER SIGTERM: no new jobs' "$WORK/log.err"

# Data listeners: in --data-ports, on the address of --listen. A full range is named.
port=$(free_port)
env -u BPS_SOCKET_IFNAME "$BIN/bps-server" --listen 127.0.0.1:0 --data-ports "$port-$((port + 9))" > "$WORK/ports.out" 2> "$WORK/ports.err" &
pid=$!; PIDS+=("$pid")
wait_for 10 said '^listening on' "$WORK/ports.out" || fail "does not listen: $(cat "$WORK/ports.err")"
BPS_SERVERS=$(sed -n 's/^listening on //p' "$WORK/ports.out"); export BPS_SERVERS
NCCL_SHM_DISABLE=1 perf > "$WORK/out" 2>&1 || fail "with data ports: $(tail -qn 5 "$WORK/out")"
kill -TERM "$pid"; wait "$pid"
"$BIN/bps-server" --listen 127.0.0.1:0 --data-ports "$port-$port" > "$WORK/full.out" 2> "$WORK/full.err" &
pid=$!; PIDS+=("$pid")
wait_for 10 said '^listening on' "$WORK/full.out" || fail "does not listen: $(cat "$WORK/full.err")"
BPS_SERVERS=$(sed -n 's/^listening on //p' "$WORK/full.out")
perf > "$WORK/out" 2>&1 && fail "two machines on one port"
said "no port of $port-$port is free on 127.0.0.1" "$WORK/out" || fail "the range is not named: $(tail -qn 5 "$WORK/out")"
kill -TERM "$pid"; wait "$pid"
unset BPS_SERVERS BPS_REQUIRE_SERVERS
BPS_PORT_RANGE=$port-$((port + 19)) NCCL_SHM_DISABLE=1 perf > "$WORK/out" 2>&1 || fail "BPS_PORT_RANGE: $(tail -qn 5 "$WORK/out")"
"$BIN/bps-server" --listen 127.0.0.1:0 --data-ports 9-3 > "$WORK/out" 2>&1 && fail "a range that ends before it begins"
said '"9-3" is not a port range' "$WORK/out" || fail "$(cat "$WORK/out")"

# Without free descriptors the metrics thread waits. It serves the page again once there are some.
( ulimit -n 24; exec "$BIN/bps-server" --listen 127.0.0.1:0 --metrics 127.0.0.1:0 --threads 1 > "$WORK/few.out" 2> "$WORK/few.err" ) &
pid=$!; PIDS+=("$pid")
wait_for 10 said '^listening on' "$WORK/few.out" || fail "does not listen: $(cat "$WORK/few.err")"
address=$(sed -n 's/^metrics on //p' "$WORK/few.out")
python3 - "${address%:*}" "${address#*:}" "$pid" << 'PY' || fail "metrics without descriptors"
import os, socket, sys, time
where, pid = (sys.argv[1], int(sys.argv[2])), sys.argv[3]
def ticks():
    fields = open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()
    return int(fields[11]) + int(fields[12])
idle = [socket.create_connection(where) for _ in range(40)]  # more than the free descriptors
before = ticks()
time.sleep(0.8)
assert ticks() - before < 20, f'{ticks() - before} ticks of processor time in 0.8 s'
for each in idle: each.close()
until = time.time() + 5
while True:
    with socket.create_connection(where) as page:
        page.settimeout(2)
        page.sendall(b'GET /metrics HTTP/1.0\r\n\r\n')
        try: text = page.recv(4096)
        except OSError: text = b''
    if text.startswith(b'HTTP/1.0 200 OK') and b'bps_jobs 0' in text: break
    assert time.time() < until, text
    time.sleep(0.05)
PY
kill -TERM "$pid"; wait "$pid" || fail "server exit $? on SIGTERM"

#!/bin/bash
# bps-run with stub servers and small shell commands as ranks: the processes it starts and ends, the environment it
# sets, its output and its exit status.
# Usage: bps_run.sh BUILD
set -u
build=$(realpath "${1:-build}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export TMPDIR=$dir/tmp
mkdir "$TMPDIR"
cp "$build/bin/bps-run" "$dir/bps-run"
run=$dir/bps-run
unset BPS_SERVERS BPS_KEY_FILE BPS_SOCKET_IFNAME NCCL_SOCKET_IFNAME
failures=0

# A stub server: prints its address, records its key file, and drains on SIGTERM.
cat >"$dir/bps-server" <<'EOF'
#!/bin/bash
trap 'echo "drained" >>"$STUB_LOG"; exit 0' TERM
[ "${STUB_MODE:-}" = dies ] && { echo "cannot do it" >&2; exit 3; }
[ "${STUB_MODE:-}" = silent ] && while :; do sleep 0.05; done
echo $$ >"$STUB_LOG.pid"
echo "$* $(stat -c %a "$4") $(stat -c %s "$4") $BPS_SOCKET_IFNAME" >>"$STUB_LOG"
echo "hello from a server"
echo "listening on 127.0.0.1:$((20000 + $$ % 10000))"
while :; do sleep 0.05; done
EOF
chmod +x "$dir/bps-server"
export STUB_LOG=$dir/log

fail() { echo "FAIL: $1"; failures=$((failures + 1)); }
# expect WHAT STATUS COMMAND...: runs the command, with its output in $dir/out and $dir/err, and checks its status.
expect() {
  local what=$1 want=$2 got
  shift 2
  : >"$STUB_LOG"
  timeout 60 "$@" >"$dir/out" 2>"$dir/err"
  got=$?
  [ "$got" = "$want" ] || { fail "$what: status $got instead of $want"; cat "$dir/err"; }
  [ -z "$(ls "$TMPDIR")" ] || fail "$what: left $(ls "$TMPDIR") behind"
}
holds() { grep -q -- "$2" "$dir/$1" || { fail "no \"$2\" in $1:"; cat "$dir/$1"; }; }
lacks() { ! grep -q -- "$2" "$dir/$1" || { fail "\"$2\" in $1:"; cat "$dir/$1"; }; }
# ended TAG: within two seconds no process has the tag in its command line.
ended() {
  local i
  for i in $(seq 20); do
    pgrep -f "$1" >/dev/null || return 0
    sleep 0.1
  done
  fail "processes are left: $(pgrep -af "$1")"
}

# Usage.
expect "no arguments" 2 "$run"
expect "no command" 2 "$run" -n 1
holds err "no COMMAND"
expect "no workers" 2 "$run" -n 0 true
expect "unknown option" 2 "$run" --nosuch -n 1 true
holds err "unknown option --nosuch"
expect "unknown short option" 2 "$run" -n 1 -q true
holds err "unknown option -q"
expect "banana" 2 "$run" -n banana true
holds err banana
expect "options behind the command" 2 "$run" true -n 2
holds err '^bps-run: -n WORKERS or -H HOSTS is required before COMMAND: options after true belong to it (see bps-run --help)$'
expect help 0 "$run" --help
holds out "--all-output"
for name in bps-server BPS_RANK BPS_NRANKS BPS_HOSTID BPS_ROOT BPS_SERVERS BPS_KEY_FILE BPS_SOCKET_IFNAME; do holds out "$name"; done
expect version 0 "$run" --version
holds out '^bps-run [0-9]*\.[0-9]*\.[0-9]*$'
expect "no such command" 127 "$run" -n 2 -s 1 /nosuch/command
holds err "/nosuch/command: command not found"
expect "not executable" 126 "$run" -n 1 /etc/passwd
[ -s "$STUB_LOG" ] && fail "servers were started for a command that does not exist"

# Environment and output.
show='echo $BPS_RANK/$BPS_NRANKS $BPS_ROOT $BPS_HOSTID ${BPS_SERVERS-none} $BPS_SOCKET_IFNAME $(stat -c %a:%s $BPS_KEY_FILE)'
expect "two servers" 0 "$run" -n 2 -m 2 -s 2 -v -- sh -c "$show"
[ "$(wc -l <"$dir/out")" = 8 ] || { fail "eight lines expected"; cat "$dir/out"; }
holds out '^0/4 127.0.0.1:[0-9]* bps-run-[0-9]*-0 127.0.0.1:[0-9]*,127.0.0.1:[0-9]* lo 600:32$'
holds out '^\[1\] 1/4 .*-0 127'
holds out '^\[3\] 3/4 .*-1 127'
holds out '^\[server 1\] hello'
[ "$(grep -c '^--listen 127.0.0.1:0 --key-file .*/key 600 32 lo$' "$STUB_LOG")" = 2 ] || { fail "server arguments"; cat "$STUB_LOG"; }
[ "$(grep -c drained "$STUB_LOG")" = 2 ] || fail "servers were not ended by SIGTERM"
holds err '^bps-run: 2 workers x 2 ranks, 2 servers at 127.0.0.1:[0-9]*,127.0.0.1:[0-9]*$'
expect "quiet" 0 "$run" -n 3 sh -c "$show; echo noise >&2"
[ "$(wc -l <"$dir/out")" = 1 ] || { fail "one line expected"; cat "$dir/out"; }
holds out ' none lo 600:32$'
[ "$(grep -c noise "$dir/err")" = 1 ] || { fail "other ranks' stderr is shown"; cat "$dir/err"; }
(umask 077 && head -c 16 /dev/zero >"$dir/mykey")
export BPS_SERVERS=cpu1:7700 BPS_KEY_FILE=$dir/mykey
expect "given servers" 0 "$run" -n 1 sh -c "$show"
holds out ' cpu1:7700 600:16$'
holds err 'servers cpu1:7700'
expect "no servers by wish" 0 "$run" -n 1 -s 0 sh -c "$show"
holds out ' none lo '
unset BPS_SERVERS BPS_KEY_FILE
BPS_SOCKET_IFNAME=eth7 expect "own interface" 0 "$run" -n 1 sh -c "$show"
holds out ' none eth7 '
expect "options of the command" 0 "$run" -n 1 sh -c 'echo $# $1' x -n
holds out '^1 -n$'

# Failures: the first failed rank gives the status, all ranks end, and the last output of the other ranks is shown.
expect "status" 5 "$run" -n 3 sh -c '[ $BPS_RANK = 1 ] && { echo oops >&2; exit 5; }; exec sleep 61.5'
holds err '^bps-run: rank 1 exited with status 5$'
holds err '^\[1\] oops$'
ended 'sleep 61[.]5'
expect "signal" 139 "$run" -n 2 -s 1 sh -c '[ $BPS_RANK = 1 ] && kill -SEGV $$; sleep 62.5'
holds err 'rank 1 was killed by signal 11'
ended 'sleep 62[.]5'
expect "last words" 3 "$run" -n 3 sh -c '[ $BPS_RANK = 1 ] && exit 3; sleep 1; echo "rank 1 is gone" >&2; exit 6'
[ "$(grep -c 'rank 1 is gone' "$dir/err")" = 2 ] || { fail "the others' errors are not shown"; cat "$dir/err"; }
expect "deaf rank" 7 "$run" -n 2 bash -c 'trap "" TERM; [ $BPS_RANK = 1 ] && exit 7; while :; do sleep 0.1; done; : sixtythree'
ended sixtythree
expect "time-out" 124 "$run" --timeout 0.5 -n 2 sleep 64.5
holds err 'not done after 0.5 s'
ended 'sleep 64[.]5'
expect "time-out while one writes without end" 124 "$run" --timeout 0.5 -n 2 \
  sh -c '[ $BPS_RANK = 1 ] && exec yes "sleep 67.5"; exec sleep 67.5'
ended 'sleep 67[.]5'
STUB_MODE=silent expect "time-out of a server's start" 124 "$run" --timeout 0.5 -n 1 -s 1 true
expect "a status above 128 is no signal" 200 "$run" -n 1 sh -c 'exit 200'
holds err '^bps-run: rank 0 exited with status 200$'
timeout 20 "$run" -n 1 sh -c 'exit 4' 2>/dev/full
[ $? = 4 ] || fail "a standard error that is full changes the status"
expect "left behind" 0 "$run" -n 1 sh -c 'sleep 65.5 & exit 0'
ended 'sleep 65[.]5'
STUB_MODE=dies expect "server dies" 1 "$run" -n 1 -s 1 true
holds err 'server 0 exited with status 3 before it was listening'
holds err '^\[server 0\] cannot do it'
mv "$dir/bps-server" "$dir/away"
expect "no server program" 1 "$run" -n 1 -s 1 true
mv "$dir/away" "$dir/bps-server"
expect "lost server" 0 "$run" -n 1 -s 1 sh -c 'kill -KILL $(cat "$STUB_LOG.pid"); sleep 0.3'
holds err 'server 0 was killed by signal 9'

# Signals to bps-run itself.
for signal in INT:130 TERM:143 KILL:137; do
  : >"$STUB_LOG"
  # A shell's background jobs ignore SIGINT; env restores it.
  env --default-signal=INT "$run" -n 2 -s 1 -- sh -c 'sleep 66.5; exit 0' >"$dir/out" 2>"$dir/err" &
  pid=$!
  # The command line is the one of bps-run, its reaper and the ranks, which start once the servers listen.
  for i in $(seq 100); do [ "$(pgrep -cf 'sleep 66[.]5; exit')" -ge 4 ] && break; sleep 0.05; done
  kill -"${signal%:*}" $pid
  wait $pid 2>/dev/null
  got=$?
  [ $got = "${signal#*:}" ] || fail "SIG${signal%:*}: status $got"
  ended 'sleep 66[.]5'
  ended "$dir/bps-server"
  for i in $(seq 20); do [ -z "$(ls "$TMPDIR")" ] && break; sleep 0.1; done
  [ -z "$(ls "$TMPDIR")" ] || fail "SIG${signal%:*}: key left behind"
  [ "$signal" = KILL:137 ] || grep -q drained "$STUB_LOG" || fail "SIG${signal%:*}: servers were not drained"
done

[ $failures = 0 ] && echo "bps-run: all checks passed"
exit $((failures > 0))

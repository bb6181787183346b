#!/bin/bash
# bps-run -H and --servers-on: ranks and servers on several machines, which a stand-in for ssh plays on this machine, and
# a real sshd where there is one.
# Usage: bps_run_hosts.sh BUILD
set -u
build=$(realpath "${1:-build}")
dir=$(mktemp -d)
sshd_pid=
trap '[ -z "$sshd_pid" ] || kill "$sshd_pid"; rm -rf "$dir"' EXIT
run=$build/bin/bps-run
unset BPS_SERVERS BPS_KEY_FILE BPS_ROOT NCCL_SOCKET_IFNAME
export BPS_SOCKET_IFNAME=lo BPS_TIMEOUT=10 NCCL_IB_DISABLE=1
unset BPS_PORT_RANGE
failures=0
mkdir "$dir/home" "$dir/home/tmp" "$dir/work" "$dir/bin"

# As ssh: the command runs by a login shell with an environment of its own, in the home directory, and it does not end
# when ssh is killed: only its standard input ends. Every host is a machine of its own.
cat >"$dir/ssh" <<EOF
#!/bin/bash
host=\$1
shift
echo "\$host \$*" >>"$dir/log"
[ "\$host" != 127.0.0.9 ] || { echo "ssh: connect to host 127.0.0.9: No route to host" >&2; exit 255; }
cd "$dir/home" || exit 255
env -i HOME="$dir/home" TMPDIR="$dir/home/tmp" PATH="$PATH" BPS_HOSTID="\$host" setsid -w bash -c "\$*"
EOF
chmod +x "$dir/ssh"
cd "$dir/work" || exit 1

fail() { echo "FAIL: $1"; failures=$((failures + 1)); }
expect() {
  local what=$1 want=$2 got
  shift 2
  timeout 60 "$@" >"$dir/out" 2>"$dir/err"
  got=$?
  [ "$got" = "$want" ] || { fail "$what: status $got instead of $want"; cat "$dir/out" "$dir/err"; }
  clean "$what"
}
# clean WHAT: within five seconds, the scripts on the hosts have removed their files.
clean() {
  local i
  for i in $(seq 50); do
    [ -n "$(ls "$dir/home/tmp")" ] || return 0
    sleep 0.1
  done
  fail "$1: left $(ls "$dir/home/tmp") behind"
}
holds() { grep -q -- "$2" "$dir/$1" || { fail "no \"$2\" in $1:"; cat "$dir/$1"; }; }
lacks() { ! grep -q -- "$2" "$dir/$1" || { fail "\"$2\" in $1:"; cat "$dir/$1"; }; }
ended() {
  local i
  for i in $(seq 80); do
    pgrep -f "$1" >/dev/null || return 0
    sleep 0.1
  done
  fail "processes are left: $(pgrep -af "$1")"
}
on=("$run" --ssh "$dir/ssh")
hosts=(-H 127.0.0.2:2,127.0.0.3:2)

# Options.
for bad in '127.0.0.2:0|number of ranks' '127.0.0.2:x|number of ranks' ':2|HOST' '-oProxyCommand=x|HOST' 'a b|HOST' \
    'a:4097|number of ranks' 'a:4000,b:4000|more than 4096'; do
  expect "-H ${bad%|*}" 2 "$run" --host="${bad%|*}" true
  holds err "${bad#*|}"
done
expect "bad port" 2 "$run" "${hosts[@]}" --servers-on a:70000 true
holds err '70000'
expect "-n with -H" 2 "$run" -n 2 "${hosts[@]}" true
holds err '--workers'
expect "--servers-on without -H" 2 "$run" -n 2 --servers-on a true
expect "bad name" 2 "$run" "${hosts[@]}" -x A=1 true
holds err 'A=1'
expect "unknown host" 1 "$run" --ssh "$dir/ssh" -H no-such-host.invalid true
holds err 'no-such-host.invalid'
expect "loopback among hosts" 1 "$run" --ssh "$dir/ssh" -H localhost,10.9.8.7 true
holds err 'cannot reach'

# Environment, directory, order and words.
export SHOWN="it's \"one\" \$word" NCCL_DEBUG=WARN HIDDEN=1
show='echo "$BPS_RANK/$BPS_NRANKS $BPS_HOSTID $PWD <$1> $SHOWN $NCCL_DEBUG ${HIDDEN:-none} $(stat -c %a:%s "$BPS_KEY_FILE") $BPS_ROOT"'
expect "environment" 0 "${on[@]}" "${hosts[@]}" -x SHOWN -v sh -c "$show" x "two  'words'"
for rank in 0 1 2 3; do
  prefix=
  [ $rank = 0 ] || prefix="\\[$rank\\] "
  holds out "^$prefix$rank/4 127.0.0.$((2 + rank / 2)) $dir/work <two  'words'> it's \"one\" \$word WARN none 600:32 127.0.0.2:[0-9]*\$"
done
holds err '2 workers with 4 ranks, no servers'
lacks log 'SHOWN'
long=$(printf %0100000d 0)  # more than a pipe holds
expect "long command" 0 "${on[@]}" "${hosts[@]}" -v sh -c 'echo ${#1}' x "$long"
[ "$(grep -c 100000 "$dir/out")" = 4 ] || { fail "a long argument is lost"; cat "$dir/out"; }

# Failures.
expect "status" 5 "${on[@]}" "${hosts[@]}" sh -c '[ $BPS_RANK = 3 ] && { echo oops >&2; exit 5; }; exec sleep 71.5'
holds err 'rank 3 exited with status 5'
holds err 'oops'
ended 'sleep 71[.]5'
expect "no such program" 127 "${on[@]}" "${hosts[@]}" no-such-program
expect "host that is down" 255 "${on[@]}" -H 127.0.0.2,127.0.0.9 --servers-on 127.0.0.2:0 true
[ "$(grep -c 127.0.0.9 "$dir/err")" != 0 ] || fail "the host that is down is not named"
expect "deaf rank" 7 "${on[@]}" "${hosts[@]}" bash -c 'trap "" TERM; [ $BPS_RANK = 1 ] && exit 7; while :; do sleep 0.1; done; : seventythree'
ended seventythree
expect "left behind" 0 "${on[@]}" "${hosts[@]}" sh -c 'sleep 72.5 & exit 0'
ended 'sleep 72[.]5'
expect "last words" 3 "${on[@]}" "${hosts[@]}" sh -c '[ $BPS_RANK = 1 ] && exit 3; trap "echo I end >&2; exit 1" TERM; sleep 8 & wait'
holds err 'I end'
for signal in INT TERM KILL; do
  "${on[@]}" "${hosts[@]}" sleep 74.5 >"$dir/out" 2>"$dir/err" &
  runner=$!
  for i in $(seq 50); do [ "$(pgrep -fc '^sleep 74[.]5')" = 4 ] && break; sleep 0.1; done
  [ "$(pgrep -fc '^sleep 74[.]5')" = 4 ] || fail "the ranks do not run"
  kill -$signal "$runner"
  wait "$runner" 2>/dev/null
  ended 'sleep 74[.]5'
done
clean "signals"

# A real all-reduce with two servers.
expect "all-reduce" 0 "${on[@]}" "${hosts[@]}" --servers-on 127.0.0.4:0,127.0.0.5:0 "$build/bin/bps-perf" -b 1M -e 1M -n 3 -w 1
holds err 'servers at 127.0.0.4:'
holds out '# Out of bounds values : 0 OK'
ended "bps-server --listen 127.0.0.4:0"

# The same by a real sshd.
sshd=$(command -v sshd || ls /usr/sbin/sshd 2>/dev/null)
if [ -z "$sshd" ] || ! command -v ssh-keygen >/dev/null; then
  echo "skip: real ssh: no sshd on this machine"
else
  ssh-keygen -q -t ed25519 -N '' -f "$dir/host" && ssh-keygen -q -t ed25519 -N '' -f "$dir/user" || exit 1
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  [ -d /run/sshd ] || mkdir -p /run/sshd
  "$sshd" -D -f /dev/null -p "$port" -o ListenAddress=127.0.0.1 -o HostKey="$dir/host" -o PidFile=none -o StrictModes=no \
    -o AuthorizedKeysFile="$dir/user.pub" -o UsePAM=no 2>"$dir/sshd.err" &
  sshd_pid=$!
  ssh="ssh -p $port -i $dir/user -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
  for i in $(seq 50); do $ssh 127.0.0.1 true 2>/dev/null && break; sleep 0.1; done
  if ! $ssh 127.0.0.1 true 2>"$dir/err"; then
    echo "skip: real ssh: $(tail -n 1 "$dir/err")"
  else
    expect "by ssh" 0 "$run" --ssh "$ssh" -H 127.0.0.1:2 --servers-on 127.0.0.1:0 "$build/bin/bps-perf" -b 1M -e 1M -n 3 -w 1
    holds out '# Out of bounds values : 0 OK'
    expect "status by ssh" 9 "$run" --ssh "$ssh" -H 127.0.0.1:2 sh -c '[ $BPS_RANK = 1 ] && exit 9; exec sleep 75.5'
    ended 'sleep 75[.]5'
  fi
fi

[ $failures = 0 ] && echo "bps_run_hosts: all right"
exit $((failures > 0))

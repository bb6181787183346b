# Shared by the multi-process tests. Starts servers and ranks separately, so that a test can kill one and check the
# others. Ends all processes that it has started, by pid. Source it with BUILD set.
set -u
BIN=$BUILD/bin
WORK=$(mktemp -d)
PIDS=()
export BPS_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 BPS_TIMEOUT=${BPS_TIMEOUT:-6} BPS_KEY_FILE=$WORK/key
unset BPS_SERVERS BPS_ROOT BPS_RANK BPS_NRANKS BPS_HOSTID
(umask 077 && head -c 32 /dev/urandom > "$WORK/key")

end() {
  for pid in "${PIDS[@]}"; do kill -CONT "$pid" 2>/dev/null; kill -KILL "$pid" 2>/dev/null; done
  wait 2>/dev/null
  rm -rf "$WORK"
}
trap end EXIT

fail() { echo "FAILED: $*"; exit 1; }
skip() { echo "$*"; exit 77; }
now_ms() { date +%s%3N; }

# wait_for SECONDS COMMAND...: repeats the command until it succeeds; returns 1 after SECONDS.
wait_for() {
  local until=$(( $(now_ms) + $1 * 1000 )); shift
  until "$@"; do
    [ "$(now_ms)" -lt "$until" ] || return 1
    sleep .02
  done
  return 0
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start_server NAME: starts a server and sets SERVER_PID and SERVER_ADDRESS.
start_server() {
  rm -f "$WORK/$1.out"  # output of an earlier server of this name; the shell truncates it only once this server runs
  "$BIN/bps-server" --listen 127.0.0.1:0 > "$WORK/$1.out" 2> "$WORK/$1.err" &
  SERVER_PID=$!
  PIDS+=("$SERVER_PID")
  wait_for 10 grep -q '^listening on' "$WORK/$1.out" || fail "$1 does not listen: $(cat "$WORK/$1.err")"
  SERVER_ADDRESS=$(sed -n 's/^listening on //p' "$WORK/$1.out")
}

# start_ranks N COMMAND...: starts N ranks and sets RANK_PIDS; the output of rank r is in $WORK/rank$r.{out,err}. Each
# RANKS_PER_MACHINE ranks (1 by default) are one machine.
start_ranks() {
  local n=$1; shift
  local port; port=$(free_port)
  RANK_PIDS=()
  rm -f "$WORK"/rank*.out "$WORK"/rank*.err  # the output of earlier ranks would mislead in_loop
  for ((r = 0; r < n; r++)); do
    BPS_RANK=$r BPS_NRANKS=$n BPS_ROOT=127.0.0.1:$port BPS_HOSTID=machine$((r / ${RANKS_PER_MACHINE:-1})) "$@" \
      > "$WORK/rank$r.out" 2> "$WORK/rank$r.err" &
    RANK_PIDS+=($!)
    PIDS+=($!)
  done
}

gone() { ! kill -0 "$1" 2>/dev/null || [ "$(cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null)" = Z ]; }

# threads PID: prints the state of each thread, for the report of a hang.
threads() {
  local task
  for task in "/proc/$1/task"/*; do
    echo "  thread ${task##*/}: $(awk '{ print "state " $3 ", ticks " $14 + $15 }' "$task/stat"), in $(cat "$task/wchan")"
  done 2>/dev/null
  command -v gdb >/dev/null && timeout 20 gdb -p "$1" -batch -ex "thread apply all bt 12" 2>/dev/null | grep -E '^(#|Thread)'
}

# ends_with_error RANK PATTERN SECONDS: the rank exits with non-zero status in time and prints PATTERN.
ends_with_error() {
  local pid=${RANK_PIDS[$1]}
  wait_for "$3" gone "$pid" || fail "rank $1 still runs ${3} s after the fault: $(tail -qn 3 "$WORK/rank$1.err")
$(threads "$pid")"
  wait "$pid" && fail "rank $1 exited with 0"
  grep -qE "$2" "$WORK/rank$1.out" "$WORK/rank$1.err" ||
    fail "rank $1 does not print \"$2\": $(tail -qn 5 "$WORK/rank$1.out" "$WORK/rank$1.err")"
}

# in_loop RANK: true once the rank has started and all-reduces.
in_loop() { grep -sqE '^ +[0-9]+ +[0-9]+ ' "$WORK/rank$1.out"; }
# Counts the files in /dev/shm, except those of NCCL and Open MPI in other tests.
segments() { find /dev/shm -mindepth 1 ! -name 'nccl-*' ! -name '*_segment.*' | wc -l; }
open_fds() { ls "/proc/$1/fd" | wc -l; }
rss_kb() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

# documented HEADING: prints the commands below this heading of docs/install.md.
documented() {
  awk -v heading="## $1" '/^## / { here = $0 == heading } here && /^```/ { code = !code; next } here && code' docs/install.md |
    grep . || echo "echo no commands under \"$1\"; exit 1"
}
# documented_programs: the commands of the C, C++ and Python programs, as far as this machine has the tools.
documented_programs() {
  if command -v pkg-config > /dev/null; then documented "A C program"; else echo "echo 'skip: pkg-config: not here'"; fi
  if command -v cmake > /dev/null; then documented "A C++ program with CMake"; else echo "echo 'skip: CMake: not here'"; fi
  documented "A Python program"
}
# in_system_copy NAME: runs $WORK/script in a copy of this system, if this machine lets us make one.
in_system_copy() {
  command -v unshare > /dev/null || { echo "skip: $1 in a copy of this system: no unshare"; return; }
  timeout 200 tests/support/system_copy.sh "$WORK/copy" "$BUILD" "$WORK/script" > "$WORK/out" 2>&1
  local status=$?
  if ! grep -q '^mounted' "$WORK/out"; then echo "skip: $1 in a copy of this system: $(tail -n 1 "$WORK/out")"; return; fi
  [ $status = 0 ] || fail "$1 in a copy of this system: $(tail -n 20 "$WORK/out")"
  grep '^skip:' "$WORK/out"
  ! grep '^left:' "$WORK/out" || fail "$1: files are left"
  echo "$1: also in a copy of this system"
}

# Shared by the multi-process tests: starts servers and ranks by hand, so that one of them can be killed, and looks at
# what every other one did. Everything that is started here is ended here, by pid. Source it with BUILD set.
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

# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
  local until=$(( $(now_ms) + $1 * 1000 )); shift
  until "$@"; do
    [ "$(now_ms)" -lt "$until" ] || return 1
    sleep .02
  done
  return 0
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start_server NAME: sets SERVER_PID and SERVER_ADDRESS.
start_server() {
  rm -f "$WORK/$1.out"  # what an earlier one of this name wrote: the shell empties it only once this one runs
  "$BIN/bps-server" --listen 127.0.0.1:0 > "$WORK/$1.out" 2> "$WORK/$1.err" &
  SERVER_PID=$!
  PIDS+=("$SERVER_PID")
  wait_for 10 grep -q '^listening on' "$WORK/$1.out" || fail "$1 does not listen: $(cat "$WORK/$1.err")"
  SERVER_ADDRESS=$(sed -n 's/^listening on //p' "$WORK/$1.out")
}

# start_ranks N COMMAND...: sets RANK_PIDS; output of rank r in $WORK/rank$r.{out,err}. RANKS_PER_MACHINE of them, 1 by
# default, are one machine.
start_ranks() {
  local n=$1; shift
  local port; port=$(free_port)
  RANK_PIDS=()
  rm -f "$WORK"/rank*.out "$WORK"/rank*.err  # what earlier ranks wrote is not for in_loop
  for ((r = 0; r < n; r++)); do
    BPS_RANK=$r BPS_NRANKS=$n BPS_ROOT=127.0.0.1:$port BPS_HOSTID=machine$((r / ${RANKS_PER_MACHINE:-1})) "$@" \
      > "$WORK/rank$r.out" 2> "$WORK/rank$r.err" &
    RANK_PIDS+=($!)
    PIDS+=($!)
  done
}

gone() { ! kill -0 "$1" 2>/dev/null || [ "$(cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null)" = Z ]; }

# threads PID: what each of its threads does, for the report of a hang.
threads() {
  local task
  for task in "/proc/$1/task"/*; do
    echo "  thread ${task##*/}: $(awk '{ print "state " $3 ", ticks " $14 + $15 }' "$task/stat"), in $(cat "$task/wchan")"
  done 2>/dev/null
  command -v gdb >/dev/null && timeout 20 gdb -p "$1" -batch -ex "thread apply all bt 12" 2>/dev/null | grep -E '^(#|Thread)'
}

# ends_with_error RANK PATTERN SECONDS: the rank exits non-zero in time, and says PATTERN.
ends_with_error() {
  local pid=${RANK_PIDS[$1]}
  wait_for "$3" gone "$pid" || fail "rank $1 still runs ${3} s after the fault: $(tail -qn 3 "$WORK/rank$1.err")
$(threads "$pid")"
  wait "$pid" && fail "rank $1 exited with 0"
  grep -qE "$2" "$WORK/rank$1.out" "$WORK/rank$1.err" ||
    fail "rank $1 does not say \"$2\": $(tail -qn 5 "$WORK/rank$1.out" "$WORK/rank$1.err")"
}

# in_loop RANK: it has got past its start and all-reduces.
in_loop() { grep -sqE '^ +[0-9]+ +[0-9]+ ' "$WORK/rank$1.out"; }
# Files in /dev/shm, but for those that NCCL and Open MPI have in other tests meanwhile.
segments() { find /dev/shm -mindepth 1 ! -name 'nccl-*' ! -name '*_segment.*' | wc -l; }
open_fds() { ls "/proc/$1/fd" | wc -l; }
rss_kb() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

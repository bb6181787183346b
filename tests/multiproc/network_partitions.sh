#!/usr/bin/env bash
# Two members cannot reach each other but reach all others. If one is a server, the job goes on without it. If both are
# ranks, the job ends within the stated bound, and all ranks name the same pair. Members 0 to 2 are ranks (0 has the hub), 3 and 4 are servers; a switch in user space cuts the links.
# BPS_TEST_LONG=1: all 30 scenes, which are every pair in both directions and in each one alone. Usage:
# network_partitions.sh BUILD [SCENE...]
BUILD=$1; shift; . "$(dirname "$0")/lib.sh"
BIN=$(realpath "$BIN")
export BPS_TIMEOUT=4 BPS_SOCKET_IFNAME=eth0
# docs/ARCHITECTURE.md, "Failure": the time-out, and the time to detect, decide and report.
BOUND_MS=$((BPS_TIMEOUT * 1000 + 3000))
SWITCH=bpspart$$
coproc TAP { exec python3 "$(dirname "$0")/tap_switch.py" "$SWITCH" 5 2> "$WORK/switch"; }
tap_pid=$TAP_PID tap_in=${TAP[1]} tap_out=${TAP[0]}
close_switch() { eval "exec $tap_in>&-"; wait "$tap_pid" 2>/dev/null; }
trap 'close_switch; end' EXIT
read -rt 20 -u "$tap_out" answer && [ "$answer" = up ] || skip "no network namespaces with TAP devices: $(tail -n 1 "$WORK/switch")"
cut_links() { echo "cut $*" >&"$tap_in"; read -rt 10 -u "$tap_out" answer || fail "the switch does not answer: $(cat "$WORK/switch")"; }

on() { local host=$1; shift; exec ip netns exec "$SWITCH-$host" "$@"; }
stop_all() {
  for pid in "${PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null; done
  for pid in "${PIDS[@]}"; do wait "$pid" 2>/dev/null; done
  PIDS=()
}
start_job() {
  cut_links
  for host in 3 4; do
    rm -f "$WORK/server$host.out"
    (on $host "$BIN/bps-server" --listen "10.79.0.$((host + 1)):7700") > "$WORK/server$host.out" 2> "$WORK/server$host.err" &
    PIDS+=($!)
    wait_for 10 grep -qs '^listening on' "$WORK/server$host.out" || fail "no server: $(cat "$WORK/server$host.err")"
  done
  RANK_PIDS=()
  rm -f "$WORK"/rank*
  for rank in 0 1 2; do
    (export BPS_RANK=$rank BPS_NRANKS=3 BPS_ROOT=10.79.0.1:7701 BPS_HOSTID=machine$rank
     export BPS_SERVERS=10.79.0.4:7700,10.79.0.5:7700
     on $rank "$BIN/bps-perf" -b 1M -e 1M -w 0 -c 0 -n 2 -N 0) > "$WORK/rank$rank.out" 2> "$WORK/rank$rank.err" &
    RANK_PIDS+=($!)
    PIDS+=($!)
  done
  wait_for 30 in_loop 0 || fail "the job does not start: $(cat "$WORK"/rank*.err)"
}

# The reason why the rank's communicator ended.
reason() { grep -ohP 'communicator ended: \K.*' "$WORK/rank$1.err" | head -n 1; }
# names_pair TEXT A B: the text names one of these members.
names_pair() {
  local host name
  for host in "$2" "$3"; do
    case $host in
      [012]) name="rank $host" ;;
      *) name="server 10.79.0.$((host + 1)):" ;;
    esac
    [[ $1 == *"$name"* ]] && return 0
  done
  return 1
}
# lost_server A B: rank 0 says that the server among these members is lost.
lost_server() {
  local text; text=$(grep -h 'is lost, and the calls go on without it' "$WORK/rank0.err") && names_pair "${text%% is lost*}" "$1" "$2"
}
# scene A-B [B-A]: cuts these links during a job and checks how it ends.
scene() {
  local a=${1%-*} b=${1#*-} since text
  start_job
  cut_links "$@"
  since=$(now_ms)
  if [ "$a" -ge 3 ] && [ "$b" -ge 3 ]; then  # servers have no connection to each other
    wait_for $((BOUND_MS / 1000)) gone "${RANK_PIDS[0]}" && fail "$*: servers need not reach each other: $(reason 0)"
    echo "  $*: the job goes on"
    stop_all
    return
  fi
  if [ "$a" -ge 3 ] || [ "$b" -ge 3 ]; then
    wait_for $((BOUND_MS / 1000)) lost_server "$a" "$b" || fail "$*: no server is lost: $(tail -n 5 "$WORK"/rank*.err)"
    echo "  $*: after $(($(now_ms) - since)) ms: $(grep -oh 'is lost, and .*' "$WORK/rank0.err")"
    sleep 1
    for rank in 0 1 2; do
      gone "${RANK_PIDS[$rank]}" && fail "$*: rank $rank ended: $(tail -n 5 "$WORK"/rank*.err)"
    done
    stop_all
    return
  fi
  for rank in 0 1 2; do
    wait_for $(((BOUND_MS - $(now_ms) + since + 999) / 1000)) gone "${RANK_PIDS[$rank]}" || {
      fail "$*: rank $rank still runs after $(($(now_ms) - since)) ms
$(tail -n 5 "$WORK"/rank*.err "$WORK"/server*.err)"; }
    wait "${RANK_PIDS[$rank]}" && fail "$*: rank $rank exited with 0"
  done
  since=$(($(now_ms) - since))
  text=$(reason 0)
  names_pair "$text" "$a" "$b" || fail "$*: neither end is named: $(tail -n 5 "$WORK"/rank*.err)"
  for rank in 1 2; do
    # A rank that is cut off from the hub, even one way, may not receive the hub's report: without acknowledgements TCP
    # soon sends nothing new.
    [[ $a-$b == 0-$rank || $b-$a == 0-$rank ]] && names_pair "$(reason $rank)" "$a" "$b" && continue
    [ "$(reason $rank)" = "$text" ] || fail "$*: rank 0 says \"$text\", rank $rank \"$(reason $rank)\""
  done
  echo "  $*: after $since ms: $text"
  stop_all
}

if [ $# -gt 0 ]; then
  for cuts in "$@"; do scene ${cuts//,/ }; done
elif [ "${BPS_TEST_LONG:-0}" = 1 ]; then
  for a in 0 1 2 3 4; do
    for ((b = a + 1; b < 5; b++)); do
      scene $a-$b $b-$a
      scene $a-$b
      scene $b-$a
    done
  done
else
  for cuts in "1-3 3-1" 1-3 3-1 2-1 0-1; do scene $cuts; done
fi

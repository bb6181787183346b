#!/usr/bin/env bash
# Jobs over a net plugin that delays, refuses and fails (tests/fault_plugin). Harmless faults change no bit. Other
# faults end every rank in time with a message that names the place and the fault, and the servers serve the next job.
BUILD=$1; export BPS_TIMEOUT=4; . "$(dirname "$0")/lib.sh"
BPS_NET_PLUGIN=$(realpath "$BUILD/tests/libnccl-net-fault.so")
[ -f "$BPS_NET_PLUGIN" ] || fail "no $BPS_NET_PLUGIN (make tests)"
export BPS_NET_PLUGIN
perf=$BIN/bps-perf
lastOutput() { tail -qn 5 "$WORK/out" "$WORK/err"; }

# clean_job ARGUMENTS...: runs bps-perf on three ranks and finds no wrong value.
clean_job() {
  "$BIN/bps-run" -n 3 "${servers[@]}" -- "$perf" -n 1 -w 0 -c 1 "$@" > "$WORK/out" 2> "$WORK/err" ||
    fail "$FAULT_PLUGIN_SPEC, seed $FAULT_PLUGIN_SEED: exit $?: $(lastOutput)"
  grep -qE '^# (Out of bounds values : 0|values checked .*:) OK' "$WORK/out" || fail "$FAULT_PLUGIN_SPEC: no clean footer: $(lastOutput)"
}

# Harmless faults. The first run has no fault and gives the expected checksum.
harmless=("delay:p=0.2,us=500" "busy:p=0.3" "slow:p=0.7,polls=300" "delay:p=0.01,us=20000"
  "nowait;delay:p=0.1,us=500;busy:p=0.1" "delay:p=0.5,us=50;busy:p=0.5;slow:p=0.3,polls=50")
types=(float half bfloat16 int8 double f8e4m3 uint64 int32 f8e5m2 float)
servers=(-s 2)
sums=""
key_file=$BPS_KEY_FILE; unset BPS_KEY_FILE   # bps-run makes one for its own servers
for seed in 0 1 2 3 4 5 6 7 8 9 10; do
  export FAULT_PLUGIN_SEED=$seed FAULT_PLUGIN_SPEC=${harmless[$((seed % ${#harmless[@]}))]}
  [ $seed = 0 ] && FAULT_PLUGIN_SPEC=""
  # Half of the runs post as many requests as with bps's own plugin, the others as with a foreign plugin.
  export FAULT_PLUGIN_NAME=bps; [ $((seed % 2)) = 0 ] && FAULT_PLUGIN_NAME=fault
  [ $seed = 0 ] || clean_job -b 8 -e 512K -f 16 -d "${types[$((seed - 1))]}"
  clean_job --model lenet5
  sums+=$(grep -oiE 'checksum[^0-9a-f]*(0x)?[0-9a-f]{8,}' "$WORK/out" | sort -u)$'\n'
done
[ "$(grep -c checksum <<< "$sums")" = 11 ] && [ "$(sort -u <<< "$sums" | grep -c .)" = 1 ] || fail "checksums: $sums"
echo "  harmless faults: all results are right, $SECONDS s"

# An invalid spec is an error that names the item.
export FAULT_PLUGIN_SPEC="busy:p=0.1;dealy:p=1"
"$BIN/bps-run" -n 2 -- "$perf" -b 8 -e 8 > "$WORK/out" 2> "$WORK/err" && fail "an invalid spec was accepted"
grep -q 'item "dealy:p=1": there is no "dealy"' "$WORK/err" || fail "the wrong item is not named: $(lastOutput)"

export BPS_KEY_FILE=$key_file FAULT_PLUGIN_SPEC="" FAULT_PLUGIN_SEED=1
start_server one; one=$SERVER_PID; list=$SERVER_ADDRESS
start_server two; list+=,$SERVER_ADDRESS
servers=()
culprit='(rank [0-2] \(|server 127)'

# dies SPEC PATTERN [SECONDS]: runs a loop of calls with the fault; every rank prints the pattern.
dies() {
  local limit=${3:-$((BPS_TIMEOUT + 2))}
  export BPS_SERVERS=$list
  FAULT_PLUGIN_SPEC=$1 start_ranks 3 "$perf" -b 1M -e 1M -n 20 -w 1 -c 0 -N 0
  for r in 0 1 2; do
    ends_with_error $r "$2" "$limit"
    grep -qE "$culprit" "$WORK/rank$r.err" || fail "$1: rank $r names no culprit: $(tail -qn 5 "$WORK/rank$r.err")"
  done
}
# survives: the calls go on without the server that has a fault. All values are right, and rank 0 says why.
survives() {
  export BPS_SERVERS=$list
  FAULT_PLUGIN_SPEC="" start_ranks 3 "$perf" -b 1M -e 1M -n 20 -w 1 -c 1 -N 2
  for r in 0 1 2; do
    wait_for 60 gone "${RANK_PIDS[$r]}" || fail "rank $r still runs: $(tail -qn 3 "$WORK/rank$r.err")"
    wait "${RANK_PIDS[$r]}" || fail "rank $r: exit $?: $(tail -qn 5 "$WORK/rank$r.out" "$WORK/rank$r.err")"
  done
  grep -qE '^# Out of bounds values : 0 OK' "$WORK/rank0.out" || fail "values: $(tail -n 4 "$WORK/rank0.out")"
  grep -qE "server .* is lost, and the calls go on without it: .*($1)" "$WORK/rank0.err" ||
    fail "no warning with \"$1\": $(cat "$WORK/rank0.err")"
}
injected='injected|closed the connection'

for spec in "disconnect:bytes=100" "disconnect:bytes=9M" "disconnect:requests=333,oneside=1" "fail:test=2000" \
  "fail:regmr=40" "fail:isend=77" "refuse:first=1" "fail:init=1" "fail:listen=1"; do
  rank=$((RANDOM % 3))
  servers_list=$list list=""  # between ranks, because the calls survive the loss of a server
  dies "only:rank=$rank;$spec" "$injected"
  list=$servers_list
  FAULT_PLUGIN_SPEC="" clean_job -b 8 -e 64K -f 16
  echo "  rank $rank, $spec: $SECONDS s"
done
gone "$one" && fail "a server died: $(tail -qn 5 "$WORK/one.err")"

for spec in "disconnect:bytes=100" "disconnect:bytes=9M" "disconnect:requests=333,oneside=1" "fail:test=2000" \
  "fail:regmr=6" "fail:irecv=77" "refuse:first=1"; do
  FAULT_PLUGIN_SPEC=$spec start_server hurt; list=$SERVER_ADDRESS,${list#*,}
  case $spec in
    fail:regmr=*|refuse:*) dies "" "$injected";;  # while the lanes are connected
    *) survives "$injected";;
  esac
  clean_job -b 8 -e 64K -f 16
  gone "$SERVER_PID" && fail "$spec: the server died: $(tail -qn 5 "$WORK/hurt.err")"
  kill -TERM "$SERVER_PID"; wait "$SERVER_PID" || fail "$spec: the server ends with $? on SIGTERM"
  echo "  server, $spec: $SECONDS s"
done

# After the start, a sent message never arrives, and no transport reports it. The heartbeats detect it within twice the
# time-out and 3 s. The start itself receives more than 40 messages.
BPS_TIMEOUT=2 list=""
for receiver in 0 1; do
  dies "only:rank=$receiver;lose:at=400" "rank [0-2] .* and rank [0-2] .* cannot reach each other" $((2 * BPS_TIMEOUT + 3))
done
FAULT_PLUGIN_SPEC="lose:at=400" start_server blind; list=$SERVER_ADDRESS
survives "cannot reach each other"
kill -TERM "$SERVER_PID"; wait "$SERVER_PID"; BPS_TIMEOUT=4 list=""
echo "  lost messages: $SECONDS s"

# A transport never reports that the other end has closed. A job still ends, and not by its time-out.
FAULT_PLUGIN_SPEC=deaf start_server deaf; export BPS_SERVERS=$SERVER_ADDRESS
FAULT_PLUGIN_SPEC=deaf clean_job -b 8 -e 64K -f 16
kill -TERM "$SERVER_PID"; wait "$SERVER_PID" || fail "deaf: the server ends with $? on SIGTERM"
! grep -v ' INFO SERVER ' "$WORK/deaf.err" || fail "deaf: the server logs a warning"

# A server that cannot load its transport is excluded with a warning that names it.
for spec in "fail:init=1" "fail:listen=1"; do
  FAULT_PLUGIN_SPEC=$spec start_server hurt; export BPS_SERVERS=$SERVER_ADDRESS,${list#*,}
  FAULT_PLUGIN_SPEC="" clean_job -b 8 -e 64K -f 16
  grep -q "server $SERVER_ADDRESS is left out" "$WORK/err" && grep -q "injected failure of" "$WORK/err" ||
    fail "$spec: not excluded: $(lastOutput)"
  FAULT_PLUGIN_SPEC="" clean_job -b 8 -e 64K -f 16
  grep -q "left out" "$WORK/err" && fail "$spec: still excluded from the next job: $(lastOutput)"
done
echo "  a server that cannot load its transport: $SECONDS s"

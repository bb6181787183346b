#!/usr/bin/env bash
# A process between a rank and its hub, or between a hub and a server, changes one message (message_mutator.py), by
# seed. No process crashes or waits much longer than BPS_TIMEOUT, and the server serves the next job. 20 seeds; long
# version: 1,000.
BUILD=$1; . "$(dirname "$0")/../multiproc/lib.sh"
HERE=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
FROM=${FROM:-133} SEEDS=${SEEDS:-20}  # 146: a repeated result
[ "${BPS_TEST_LONG:-0}" = 1 ] && SEEDS=1000 FROM=1
export BPS_TIMEOUT=2
python3 -c "import sys; sys.path.insert(0, '$HERE'); import sodium" || skip "no python3 with libsodium"
start_server server
server=$SERVER_PID
perf=("$BIN/bps-perf" -b 512K -e 512K -n 2 -w 0)

# rank SEED NUMBER ROOT SERVERS: starts one rank.
rank() {
  BPS_RANK=$2 BPS_NRANKS=3 BPS_ROOT=$3 BPS_HOSTID=machine$(($2 / 2)) BPS_SERVERS=$4 "${perf[@]}" > "$WORK/$1.rank$2" 2>&1 &
  ranks+=($!)
}
# with_mutator SEED: runs a job of three ranks on two machines. With odd seeds the mutator is between rank 1 or 2 and
# the hub, with even ones between the hub and the server. Fails if a process crashes or does not end.
with_mutator() {
  local seed=$1 port ranks=() roots servers=$SERVER_ADDRESS what=server target=$SERVER_ADDRESS mutator address
  port=$(free_port)
  roots=("127.0.0.1:$port" "127.0.0.1:$port" "127.0.0.1:$port")
  [ $((seed % 2)) = 1 ] && what=hub target=${roots[0]}
  python3 "$HERE/message_mutator.py" $what "$target" "$BPS_KEY_FILE" "$seed" 60 > "$WORK/$seed.mutator" 2>&1 &
  mutator=$!
  wait_for 10 grep -q '^listening on' "$WORK/$seed.mutator" || fail "mutator: $(cat "$WORK/$seed.mutator")"
  address=$(sed -n 's/^listening on //p' "$WORK/$seed.mutator")
  if [ $what = hub ]; then roots[$((seed / 2 % 2 + 1))]=$address; else servers=$address; fi
  for r in 0 1 2; do rank "$seed" $r "${roots[$r]}" "$servers"; done
  local until=$(( $(now_ms) + 15000 )) bad="" status
  for r in 0 1 2; do
    while ! gone "${ranks[$r]}" && [ "$(now_ms)" -lt $until ]; do sleep .05; done
    gone "${ranks[$r]}" || { bad+=" rank $r hangs;$(threads "${ranks[$r]}")"; kill -KILL "${ranks[$r]}"; }
    wait "${ranks[$r]}"
    status=$?
    [ $status -lt 128 ] || bad+=" rank $r: status $status;"
  done
  kill -KILL $mutator; wait $mutator 2> /dev/null
  gone "$server" && bad+=" the server died"
  [ -z "$bad" ] && { tail -n1 "$WORK/$seed.mutator"; rm -f "$WORK/$seed".*; return 0; }
  echo "seed $seed, $(tail -n1 "$WORK/$seed.mutator"):$bad $(tail -qn 3 "$WORK/$seed".rank*)"
  return 1
}
failed=0 changed=0
for ((seed = FROM; seed < FROM + SEEDS; seed += 4)); do
  batch=()
  for ((s = seed; s < seed + 4; s++)); do
    with_mutator $s > "$WORK/output$s" 2>/dev/null &
    batch+=($!)
  done
  for ((i = 0; i < 4; i++)); do
    wait "${batch[$i]}" || { failed=1; cat "$WORK/output$((seed + i))"; }
    grep -q '^did' "$WORK/output$((seed + i))" && changed=$((changed + 1))
  done
done
echo "  $changed changed messages in $SEEDS jobs"
[ $changed -ge $((SEEDS / 2)) ] || fail "too few changed messages"
[ $failed = 0 ] || exit 1
gone "$server" && fail "the server died: $(tail -n 5 "$WORK/server.err")"
BPS_REQUIRE_SERVERS=1 BPS_SERVERS=$SERVER_ADDRESS start_ranks 2 "${perf[@]}"
for pid in "${RANK_PIDS[@]}"; do wait "$pid" || fail "the next job: $(tail -qn 3 "$WORK"/rank*)"; done

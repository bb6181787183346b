#!/usr/bin/env bash
# Training with a reducer, on real digits: all ranks and every number of servers have the same weights, and one process
# alone learns the same up to rounding. If a rank is killed, the training ends on all ranks with an error that names it.
BUILD=$1; . "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.." || exit 1
digits=examples/data/digits.bin
[ -f $digits ] || skip "there is no $digits"
cc -std=c99 -O2 -Wall -Wextra -Werror -Iinclude examples/train_digits.c -o "$WORK/train" -L"$BUILD/lib" -lbps -lm \
  -Wl,-rpath,"$(realpath "$BUILD/lib")" || fail "the example does not compile"

# train N K: N ranks train with K servers; sets LOSS, ACCURACY and CHECKSUM.
train() {
  local servers=()
  for ((s = 0; s < $2; s++)); do start_server "server$s"; servers+=("$SERVER_ADDRESS"); done
  BPS_SERVERS=$(IFS=,; echo "${servers[*]}") start_ranks "$1" "$WORK/train" $digits
  for ((r = 0; r < $1; r++)); do
    wait "${RANK_PIDS[r]}" || fail "rank $r of $1, $2 servers: exit $?: $(tail -n 3 "$WORK/rank$r.err")"
  done
  cat "$WORK"/rank*.out | sed 's/^rank [0-9]* of/ranks:/' | sort -u > "$WORK/results"
  [ "$(wc -l < "$WORK/results")" = 1 ] || fail "the ranks differ: $(cat "$WORK"/rank*.out)"
  read -r LOSS ACCURACY CHECKSUM < <(sed 's/.*loss \(.*\), accuracy \(.*\), checksum \(.*\)/\1 \2 \3/' "$WORK/results")
}

train 1 0
alone=$LOSS
awk -v a="$ACCURACY" 'BEGIN { exit !(a > 0.8) }' || fail "it has not learned: accuracy $ACCURACY"
train 4 0
without=$CHECKSUM
awk -v a="$alone" -v b="$LOSS" 'BEGIN { d = a - b; exit !(d < 0.001 && d > -0.001) }' || fail "loss $LOSS, alone $alone"
train 4 2
[ "$CHECKSUM" = "$without" ] || fail "with 2 servers the checksum is $CHECKSUM, without $without"

start_ranks 4 "$WORK/train" $digits 1000000
wait_for 20 grep -q '^epoch 2' "$WORK/rank0.err" || fail "the training does not begin: $(cat "$WORK/rank0.err")"
kill -KILL "${RANK_PIDS[2]}"
ended() { gone "${RANK_PIDS[0]}" && gone "${RANK_PIDS[1]}" && gone "${RANK_PIDS[3]}"; }
wait_for 20 ended || fail "a rank goes on after rank 2 was killed"
for r in 0 1 3; do
  wait "${RANK_PIDS[r]}" && fail "rank $r ended without an error"
  grep -q 'bpsReducer.*rank 2' "$WORK/rank$r.err" || fail "rank $r does not name rank 2: $(cat "$WORK/rank$r.err")"
done

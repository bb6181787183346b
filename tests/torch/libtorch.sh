#!/usr/bin/env bash
# The example with libtorch: all ranks and every number of servers have the same weights, and one process alone learns the
# same up to rounding.
BUILD=$1; . "$(dirname "$0")/../multiproc/lib.sh"
cd "$(dirname "$0")/../.." || exit 1
python=${BPS_TORCH_PYTHON:-python3}
torch=$("$python" -c 'import torch; print(torch.__path__[0])' 2>/dev/null) || skip "no torch"
g++ -std=c++20 -O1 -Wall -Wextra -Iinclude -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" \
  examples/train_digits_torch.cc -o "$WORK/train" -L"$BUILD/lib" -lbps -L"$torch/lib" -ltorch -ltorch_cpu -lc10 \
  -Wl,-rpath,"$(realpath "$BUILD/lib"),-rpath,$torch/lib" || fail "the example does not compile"

# train N K: sets LOSS, ACCURACY and CHECKSUM.
train() {
  "$BIN/bps-run" -n "$1" -s "$2" -v -- "$WORK/train" examples/data/digits.bin > "$WORK/out" 2> "$WORK/err" ||
    fail "$1 ranks, $2 servers: exit $?: $(tail -n 5 "$WORK/out" "$WORK/err")"
  grep -ho 'loss .*' "$WORK/out" "$WORK/err" | sort -u > "$WORK/results"
  [ "$(wc -l < "$WORK/results")" = 1 ] || fail "the ranks differ: $(cat "$WORK/out")"
  [ "$(cat "$WORK/out" "$WORK/err" | grep -c 'loss ')" = "$1" ] || fail "a rank is missing: $(cat "$WORK/out")"
  read -r LOSS ACCURACY CHECKSUM < <(sed 's/loss \(.*\), accuracy \(.*\), checksum \(.*\)/\1 \2 \3/' "$WORK/results")
}

train 1 0
alone=$LOSS
awk -v a="$ACCURACY" 'BEGIN { exit !(a > 0.8) }' || fail "it has not learned: accuracy $ACCURACY"
train 4 0
without=$CHECKSUM
awk -v a="$alone" -v b="$LOSS" 'BEGIN { d = a - b; exit !(d < 0.001 && d > -0.001) }' || fail "loss $LOSS, alone $alone"
train 4 2
[ "$CHECKSUM" = "$without" ] || fail "with 2 servers the checksum is $CHECKSUM, without $without"

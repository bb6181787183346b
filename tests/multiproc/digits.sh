#!/usr/bin/env bash
# Gradients of a network trained on digits. Their sum over four ranks is as close to the sum in double precision as
# rounding allows and is the same for every k. Wrong results and invalid files are detected.
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_KEY_FILE
data=$(cd "$(dirname "$0")/../data/digits" && pwd)

# reduce K ARGUMENTS...: runs bps-perf and returns its status; the output is in $WORK/out and $WORK/err.
reduce() {
  local k=$1; shift
  "$BIN/bps-run" -n 4 -s "$k" -- "$BIN/bps-perf" --tensors "$data/grads_%r.safetensors" -n 2 -w 0 "$@" \
    > "$WORK/out" 2> "$WORK/err"
}
lastOutput() { tail -qn 5 "$WORK/out" "$WORK/err"; }

for k in 0 2; do
  reduce "$k" --compare "$data/expected_sum.safetensors" --out "$WORK/sum_$k.%r.safetensors" || fail "k=$k: exit $?: $(lastOutput)"
  grep -q '^# values beyond that : 0 OK' "$WORK/out" || fail "k=$k: not compared: $(lastOutput)"
  for r in 0 1 2 3; do
    cmp "$WORK/sum_0.0.safetensors" "$WORK/sum_$k.$r.safetensors" || fail "k=$k: rank $r wrote another result"
  done
done

reduce 1 -o avg --compare "$data/expected_sum.safetensors"
status=$?
[ "$status" = 7 ] || fail "the average passed as the sum: exit $status: $(lastOutput)"

head -c 20000 "$data/grads_0.safetensors" > "$WORK/torn.safetensors"
"$BIN/bps-run" -n 2 -s 1 -- "$BIN/bps-perf" --tensors "$WORK/torn.safetensors" > "$WORK/out" 2> "$WORK/err" &&
  fail "a truncated file was accepted: $(lastOutput)"
grep -q 'torn.safetensors: tensor "fc1.bias": its data ends at 24960 of' "$WORK/err" || fail "the file's fault is not named: $(lastOutput)"

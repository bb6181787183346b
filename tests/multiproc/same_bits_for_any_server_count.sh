#!/usr/bin/env bash
# The checksum of a model's gradients does not depend on the number of servers, nor on the chunk size.
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_KEY_FILE
sums=""
for run in "0 4M" "1 4M" "2 4M" "3 4M" "0 64K" "2 64K" "1 1M"; do
  read -r k partition <<< "$run"
  BPS_PARTITION_BYTES=$partition "$BIN/bps-run" -n 4 -s "$k" -- "$BIN/bps-perf" --model lenet5 -d bfloat16 -n 2 -w 0 \
    > "$WORK/out" 2> "$WORK/err" || fail "k=$k partition=$partition: exit $?: $(tail -qn 5 "$WORK/out" "$WORK/err")"
  sum=$(grep -oiE 'checksum[^0-9a-f]*(0x)?[0-9a-f]{8,}' "$WORK/out" | sort -u)
  [ -n "$sum" ] || fail "k=$k: no checksum in $(cat "$WORK/out")"
  sums+="$sum"$'\n'
done
[ "$(printf '%s' "$sums" | sort -u | wc -l)" = "$(printf '%s\n' "$sum" | wc -l)" ] || fail "checksums differ: $sums"

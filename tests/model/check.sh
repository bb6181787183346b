#!/bin/bash
# Checks the model server_changes.pml with spin: models of several sizes must have no error, every fault that a macro
# MUTATION_ puts into the protocol must be found, and every situation of the model's list must be reached. Two runs at a
# time, with at most 2.9 GB of memory each. Usage: check.sh [BUILD]. Exits with 77 if a program is missing.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
for program in spin gcc; do
  command -v "$program" >/dev/null || { echo "$program is not installed"; exit 77; }
done
model=$PWD/server_changes.pml
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# explore NAME MACRO...: explores the model in a folder of its own. The result is in log and status there. Models with a
# fault are small, so they are compiled with less optimization.
explore() {
  local optimize=2
  [[ "$*" != *-DMUTATION_* && "$*" != *-DREACH=* ]] || optimize=0
  mkdir "$work/$1" && cd "$work/$1" || exit 1
  {
    spin -a "${@:2}" "$model" && gcc -O"$optimize" -w -DSAFETY -DNOREDUCE -DMEMLIM=2900 -o pan pan.c && ./pan -m10000 -w24
  } >log 2>&1
  echo $? >status
  rm -f pan pan.?
}
export -f explore
export work model

# Sizes. The first is the one of the requirement; the others add servers that leave, and changes that do not take place.
sound=(
  "two_losses_and_a_join -DCALLS=3 -DLOSSES=2 -DJOINS=1"
  "two_losses_a_join_and_a_leave -DCALLS=2 -DLOSSES=2 -DJOINS=1 -DLEAVES=1"
  "aborted_changes -DCALLS=2 -DLOSSES=1 -DJOINS=1 -DLEAVES=1 -DABORTS=1 -DFAILURES=1"
  "second_join_after_an_abort -DCALLS=2 -DLOSSES=1 -DJOINS=2 -DABORTS=1 -DFAILURES=1"
)
join="-DCALLS=2 -DLOSSES=2 -DJOINS=1" leave="-DCALLS=2 -DLOSSES=1 -DJOINS=0 -DLEAVES=1"
retry="-DCALLS=2 -DLOSSES=1 -DJOINS=2 -DABORTS=1"
faulty=()
for mutation in BEGINS_AFTER_LIMIT LIMIT_WITH_CONNECTED CONNECTED_BEFORE_ALL_RANKS BEGINS_BEFORE_DONE \
  CHANGES_BUSY_LANE LOSS_OVERTAKES RECOVERY_FROM_MOST RECOVERY_TO_LEAST FIRST_CALL_OF_THE_LAST_ITEM; do
  faulty+=("$mutation $join -DMUTATION_$mutation")
done
faulty+=("NO_CHANGE_NUMBER $retry -DMUTATION_NO_CHANGE_NUMBER")
faulty+=("LEAVE_DROPS_LANE_WHEN_DONE $leave -DMUTATION_LEAVE_DROPS_LANE_WHEN_DONE")
while read -r situation; do
  case $situation in
    *Leaving*) size=$leave ;;
    *Aborted*) size=$retry ;;
    *) size=$join ;;
  esac
  faulty+=("$situation $size -DREACH=$situation")
done < <(sed -nE 's/^#define (k[A-Za-z]+) [1-9][0-9]*$/\1/p' "$model" | grep -vE '^k(Unused|Remote|Ended|Substitute)$')

failed=0 states=0
fail() { # fail NAME TEXT
  failed=$((failed + 1))
  echo "FAIL $1: $2"
  tail -n 25 "$work/$1/log" | sed 's/^/      /'
}
main() {
  printf '%s\n' "${sound[@]}" "${faulty[@]}" | xargs -P 2 -I{} bash -c 'explore {}'
  for run in "${sound[@]}"; do
    name=${run%% *}
    log=$work/$name/log
    if [ "$(cat "$work/$name/status")" = 0 ] && grep -q 'errors: 0$' "$log" &&
      ! grep -qE 'Search not completed|max search depth too small|out of memory|VECTORSZ' "$log"; then
      count=$(awk '/states, stored/ {print $1}' "$log")
      states=$((states + count))
      echo "ok   $name: $count states, $(awk '/elapsed time/ {print $4}' "$log") s"
    else
      fail "$name" "an error, or the search is not complete"
    fi
  done
  for run in "${faulty[@]}"; do
    name=${run%% *}
    if grep -qE '^pan:1: (assertion violated|invalid end state)' "$work/$name/log"; then echo "ok   $name is found"
    else fail "$name" "not found"; fi
  done
  echo "$states states in $SECONDS s, ${#faulty[@]} faults and situations found"
  [ $failed = 0 ]
}

main; exit # bash reads the whole script before it runs, so an edit meanwhile does no harm

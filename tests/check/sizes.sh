#!/bin/bash
# Files and directories keep the size norms. size_exceptions.txt lists exceptions with a reason. Sizes between norm and
# limit are only counted. (Functions: lint.sh, readability-function-size.)
. "$(dirname "$0")/common.sh"
exceptions=tests/check/size_exceptions.txt
excepted() { grep -q "^$1 .*[a-z]" "$exceptions"; }

bad=0 above=0
# judge PATH SIZE NORM LIMIT UNIT
judge() {
  [ "$2" -le "$3" ] && return
  if [ "$2" -le "$4" ]; then
    above=$((above + 1))
  elif ! excepted "$1"; then
    echo "$1: $2 $5, more than $4"
    bad=1
  fi
}

while read -r lines file; do
  case $file in
    *.cc | *.c) judge "$file" "$lines" 300 450 lines ;;
    *.h) judge "$file" "$lines" 150 250 lines ;;
  esac
done < <(everything | xargs wc -l | grep -v ' total$')
while read -r count dir; do
  judge "$dir" "$count" 12 16 files
done < <(everything | xargs -n1 dirname | sort | uniq -c)
while read -r path _; do
  case $path in '' | '#'*) continue ;; esac
  [ -e "$path" ] || { echo "$exceptions: $path does not exist"; bad=1; }
done <"$exceptions"
[ $above = 0 ] || echo "($above above the norm and within the limit)"
exit $bad

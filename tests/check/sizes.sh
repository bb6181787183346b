#!/bin/bash
# Files, directories, classes and functions keep to the size limits. size_exceptions.txt names exceptions with a reason.
# The limit for single functions is in .clang-tidy (readability-function-size); here stands the one for all of them.
. "$(dirname "$0")/common.sh"
exceptions=tests/check/size_exceptions.txt
bad=0 used=

# judge NAME SIZE LIMIT UNIT
judge() {
  [ "$2" -le "$3" ] && return
  grep -q "^$1 .*[a-z]" "$exceptions" && { used+=" $1 "; return; }
  echo "$1: $2 $4, more than $3"
  bad=1
}
# percentile P: the smallest of the numbers read that P percent of them do not exceed.
percentile() { sort -n | awk -v p="$1" '{ all[NR] = $1 } END { print all[int((NR * p + 99) / 100)] + 0 }'; }

while read -r lines file; do
  case $file in
    tests/*.cc | examples/*) judge "$file" "$lines" 450 lines ;;
    *.cc) judge "$file" "$lines" 400 lines ;;
    *.h) judge "$file" "$lines" 250 lines ;;
  esac
done < <({ everything; packages; } | xargs wc -l | grep -v ' total$')
judge "90 percent of the product's files" "$(product | xargs wc -l | awk '$2 != "total" { print $1 }' | percentile 90)" 180 lines

while read -r count dir; do
  judge "$dir" "$count" 16 files
done < <({ everything; packages; } | xargs -n1 dirname | sort | uniq -c)

# Data members are counted by their trailing underscore, so structs of plain data are exempt.
while read -r members name; do
  judge "$name" "$members" 12 "data members"
done < <(product | xargs awk -f tests/check/class_sizes.awk)

if ctags --version 2>/dev/null | grep -q '^Universal Ctags'; then
  functions=$(product | xargs ctags -x --sort=no --language-force=C++ --kinds-C++=f --fields=+ne --_xformat='%e %n')
  judge "99 percent of the product's functions" "$(awk '$1 != "-" { print $1 - $2 + 1 }' <<<"$functions" | percentile 99)" 30 lines
else
  echo "(lengths of all functions: skipped, no Universal Ctags)"
fi

while read -r path _; do
  case $path in '' | '#'*) continue ;; esac
  [ -e "${path%%:*}" ] || { echo "$exceptions: ${path%%:*} does not exist"; bad=1; }
  [[ $used == *" $path "* ]] || echo "($exceptions: $path is within the limits now)"
done <"$exceptions"
exit $bad

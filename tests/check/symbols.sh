#!/bin/bash
# Each library exports exactly the list tests/abi/LIBRARY.symbols, and libbps exactly what the headers declare. --fix
# writes the lists.
. "$(dirname "$0")/common.sh"
fix=0
[ "${1:-}" = --fix ] && { fix=1; shift; }
build=${1:-build}
bad=0

exported() { nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//' | LC_ALL=C sort; }
declared() {
  local headers="include/bps/bps.h include/bps/bps_ext.h include/bps/params.h include/bps/reducer.h"
  {
    cat $headers | grep -oE '^BPS_API .*\(' | grep -oE 'bps[A-Za-z]+\(' | tr -d '('
    cat $headers | sed -nE 's/^extern const int (bps[A-Za-z]+) .*/\1/p'
  } | LC_ALL=C sort
}

command -v nm >/dev/null || skip "no nm"
ls "$build"/lib/*.so >/dev/null 2>&1 || skip "no library in $build/lib"
for library in "$build"/lib/*.so "$build"/lib/nccl/*.so.2; do
  [ -f "$library" ] || continue
  list=$(basename "$library")
  list=tests/abi/${list%%.*}.symbols
  if [ $fix = 1 ]; then
    exported "$library" >"$list"
  elif [ ! -f "$list" ]; then
    echo "$list: missing (tests/check/symbols.sh --fix)"
    bad=1
  elif ! diff -u --label "$list" --label "$library" "$list" <(exported "$library"); then
    bad=1
  fi
done
[ -f "$build/lib/libbps.so" ] && { diff -u --label "declared in include/bps" --label exported <(declared) <(exported "$build/lib/libbps.so") || bad=1; }
exit $bad

#!/bin/bash
# Every public header compiles alone as C99 and C++20 without warnings. tests/abi/use_all.c uses everything that they
# declare, links with libbps.so and runs.
. "$(dirname "$0")/common.sh"
build=${1:-build}
warn="-Wall -Wextra -Wpedantic -Werror -Iinclude"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0

for header in include/bps/*.h; do
  echo "#include <bps/$(basename "$header")>" >"$dir/one.c"
  cp "$dir/one.c" "$dir/one.cc"
  for compile in "gcc -std=c99" "g++ -std=c++20" "clang -std=c99" "clang++ -std=c++20"; do
    command -v "${compile%% *}" >/dev/null || continue
    extension=c
    [ "${compile%++*}" = "$compile" ] || extension=cc
    $compile $warn -fsyntax-only "$dir/one.$extension" || { echo "$header: not with $compile"; bad=1; }
  done
done

for name in $(grep -ohE '^BPS_API .*\(' include/bps/*.h | grep -oE 'bps[A-Za-z]+\(' | tr -d '('); do
  grep -q "\b$name\b" tests/abi/use_all.c || { echo "tests/abi/use_all.c does not use $name"; bad=1; }
done
[ -f "$build/lib/libbps.so" ] || { [ $bad = 0 ] && skip "headers are right; no $build/lib/libbps.so to link against"; exit 1; }
gcc -std=c99 $warn tests/abi/use_all.c -L"$build/lib" -lbps -Wl,-rpath,"$(realpath "$build/lib")" -o "$dir/use_all" || exit 1
env -u BPS_SERVERS timeout 30 "$dir/use_all" || { echo "use_all ended with status $?"; bad=1; }
exit $bad

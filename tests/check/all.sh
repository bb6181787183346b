#!/bin/bash
# All checks, one line each. Usage: all.sh [BUILD]. The last line: N passed, N failed, N skipped.
dir=$(dirname "$0")
build=${1:-build}
passed=0 failed=0 skipped=0
for check in format layers sizes words headers symbols binaries docs packaging ptx lint; do
  output=$("$dir/$check.sh" "$build" 2>&1)
  case $? in
    0) passed=$((passed + 1)); echo "ok    check $check" ;;
    77) skipped=$((skipped + 1)); echo "skip  check $check: $(tail -n1 <<<"$output")" ;;
    *) failed=$((failed + 1)); echo "FAIL  check $check"; sed 's/^/      /' <<<"$output" | head -n 60 ;;
  esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]

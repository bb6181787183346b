#!/bin/bash
# clang-tidy over all product code. What was clean is remembered under build/lint by the content of the file, of every
# header of ours and of .clang-tidy, so that only what changed is looked at again.
. "$(dirname "$0")/common.sh"
tool=$(command -v clang-tidy-14 || command -v clang-tidy) || skip "no clang-tidy"
"$tool" --version | grep -q 'version 14\.' || skip "clang-tidy is not version 14, others find other things"
cache=build/lint
mkdir -p "$cache"

# stamp FILE: names the state in which the file is now. Its headers come from the compiler's dependency list.
stamp() {
  local headers
  headers=$(sed -e 's/\\$//' -e 's/^[^:]*://' "build/obj/${1%.cc}.d" 2>/dev/null | tr -s ' ' '\n' | grep -E '^[a-z]' | sort -u)
  [ -n "$headers" ] || headers=$(product | grep '\.h$')
  cat .clang-tidy "$1" $headers 2>/dev/null | sha256sum | cut -c1-40
}

lint() {
  local file=$1 mark output
  mark=$cache/$(echo "$file" | tr / _).$(stamp "$file")
  [ -e "$mark" ] && return 0
  if output=$("$tool" --quiet "$file" -- -I. -Iinclude -std=c++20 -pthread 2>/dev/null); then
    rm -f "$cache/$(echo "$file" | tr / _)".*
    : >"$mark"
  else
    echo "$output" | grep -vE '^$|warnings? (treated|generated)'
    return 1
  fi
}
export -f stamp lint product sources
export tool cache

product | grep '\.cc$' | xargs -P "$(nproc)" -I{} bash -c 'lint {}' || exit 1

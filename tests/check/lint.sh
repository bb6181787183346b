#!/bin/bash
# clang-tidy over all product code, with clang's warnings and its lock analysis. One run reads all sources of a module
# together, to parse common headers once. If that fails (two sources define the same local name), it tries each half.
# Clean results are cached under build/lint by the content of the sources, of every project header and of .clang-tidy.
. "$(dirname "$0")/common.sh"
tool=$(command -v clang-tidy-14 || command -v clang-tidy) || skip "no clang-tidy"
"$tool" --version | grep -q 'version 14\.' || skip "clang-tidy is not version 14, others find other things"
cache=build/lint
mkdir -p "$cache"
flags=(-I. -Iinclude -std=c++20 -pthread -Wall -Wextra -Wpedantic -Wconversion -Wthread-safety)

# stamp FILE...: names the state of the files and their headers, which the compiler's dependency lists give.
stamp() {
  local file list headers
  headers=$(for file in "$@"; do
    list=build/obj/${file%.cc}.d
    if [ -f "$list" ]; then sed -e 's/\\$//' -e 's/^[^:]*://' "$list" build/obj/src/precompiled.h.d 2>/dev/null
    else product | grep '\.h$'; fi
  done | tr -s ' ' '\n' | grep -E '^[a-z]' | sort -u)
  cat .clang-tidy "$@" $headers 2>/dev/null | sha256sum | cut -c1-40
}

# tidy FILE [OPTION...]: prints the findings in the file and in its project headers.
tidy() {
  local output
  output=$("$tool" --quiet "$@" -- "${flags[@]}" 2>/dev/null) && return 0
  echo "$output" | grep -vE '^$|warnings? (treated|generated)'
  return 1
}

# lint FILE...: checks a batch of files.
lint() {
  local mark together half status=0
  mark=$cache/$(echo "$*" | sha256sum | cut -c1-12)
  [ "$(cat "$mark" 2>/dev/null)" = "$(stamp "$@")" ] && return 0
  together=$mark.cc
  printf '#include "%s"\n' "$@" >"$together"
  # Files that are clean together are clean. Otherwise each half is checked, down to the file, which gives the right
  # names.
  if [ $# = 1 ]; then
    tidy "$1" || status=1
  elif ! tidy "$together" --checks=-bugprone-suspicious-include >/dev/null; then
    half=$(($# / 2))
    lint "${@:1:half}" || status=1
    lint "${@:half+1}" || status=1
  fi
  rm -f "$together"
  [ $status = 0 ] && stamp "$@" >"$mark"
  return $status
}

# Prints batches of at most 34 files of one module, without duplicate file names, the largest first. Programs, and files
# that replace another file, are modules of their own.
batches() {
  product | grep '\.cc$' | awk '{
    match($0, /^(tools\/[^\/]*|perf\/(app|delay_line|peers|bench_cpu_reduce)|net_plugin\/verbs\/without|[^\/]*)\//)
    module = /^perf\/peers\// ? $0 : substr($0, 1, RLENGTH)
    batch = module " " int(count[module] / 34)
    count[module]++
    list[batch] = list[batch] " " $0
  } END { for (batch in list) print split(list[batch], files, " ") list[batch] }' | sort -rn | cut -d' ' -f2-
}
export -f stamp tidy lint product sources
export tool cache
export flags_line="${flags[*]}"

batches | xargs -P "$(nproc)" -I{} bash -c 'flags=($flags_line); lint {}' || exit 1

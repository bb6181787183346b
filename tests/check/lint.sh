#!/bin/bash
# clang-tidy over all product code, with clang's own warnings and its analysis of locks. The sources of a directory (of
# src: of several) are read as one, which spares reading the same headers again for each; where they cannot be (two have
# a name of their own in common), each by itself. What was clean is remembered under build/lint by the content of the
# sources, of every header of ours and of .clang-tidy.
. "$(dirname "$0")/common.sh"
tool=$(command -v clang-tidy-14 || command -v clang-tidy) || skip "no clang-tidy"
"$tool" --version | grep -q 'version 14\.' || skip "clang-tidy is not version 14, others find other things"
cache=build/lint
mkdir -p "$cache"
flags=(-I. -Iinclude -std=c++20 -pthread -Wall -Wextra -Wpedantic -Wconversion -Wthread-safety)

# stamp FILE...: names the state in which the files are now. Their headers come from the compiler's dependency lists.
stamp() {
  local file list headers
  headers=$(for file in "$@"; do
    list=build/obj/${file%.cc}.d
    if [ -f "$list" ]; then sed -e 's/\\$//' -e 's/^[^:]*://' "$list" build/obj/src/precompiled.h.d 2>/dev/null
    else product | grep '\.h$'; fi
  done | tr -s ' ' '\n' | grep -E '^[a-z]' | sort -u)
  cat .clang-tidy "$@" $headers 2>/dev/null | sha256sum | cut -c1-40
}

# tidy FILE [OPTION...]: prints what it finds in the file and in what that includes of ours.
tidy() {
  local output
  output=$("$tool" --quiet "$@" -- "${flags[@]}" 2>/dev/null) && return 0
  echo "$output" | grep -vE '^$|warnings? (treated|generated)'
  return 1
}

# lint FILE...: those of a batch.
lint() {
  local file mark together status=0
  mark=$cache/$(echo "$*" | sha256sum | cut -c1-12)
  [ "$(cat "$mark" 2>/dev/null)" = "$(stamp "$@")" ] && return 0
  together=$mark.cc
  printf '#include "%s"\n' "$@" >"$together"
  # Clean together is clean; of anything else each file is asked, which also says it with the right names.
  if [ $# = 1 ] || ! tidy "$together" --checks=-bugprone-suspicious-include >/dev/null; then
    for file in "$@"; do tidy "$file" || status=1; done
  fi
  rm -f "$together"
  [ $status = 0 ] && stamp "$@" >"$mark"
  return $status
}

# A line of at most ten files of one directory each, or of src, where names differ; the largest batches first.
batches() {
  product | grep '\.cc$' | awk '{
    dir = $0; sub(/^src\// ? "/.*" : "/[^/]*$", "", dir)
    if (dir != last || n == 10) { if (line) print n, line; line = ""; n = 0; last = dir }
    line = line (n++ ? " " : "") $0
  } END { print n, line }' | sort -rn | cut -d' ' -f2-
}
export -f stamp tidy lint product sources
export tool cache
export flags_line="${flags[*]}"

batches | xargs -P "$(nproc)" -I{} bash -c 'flags=($flags_line); lint {}' || exit 1

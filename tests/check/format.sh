#!/bin/bash
# All sources follow .clang-format. --fix formats them.
. "$(dirname "$0")/common.sh"
tool=$(command -v clang-format-14 || command -v clang-format) || skip "no clang-format"
"$tool" --version | grep -q 'version 14\.' || skip "clang-format is not version 14, others format differently"
mapfile -t files < <(everything; packages)
if [ "${1:-}" = --fix ]; then
  exec "$tool" -i "${files[@]}"
fi
"$tool" --dry-run -Werror "${files[@]}" 2>&1 | { grep 'error:' || true; } | cut -d: -f1 | sort | uniq -c |
  awk '{print $2 ": " $1 " places are not formatted (make fmt)"; bad = 1} END {exit bad + 0}'

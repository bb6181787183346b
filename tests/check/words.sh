#!/bin/bash
# Words that product code must not use, except in the named places. Ignores comments and string literals.
. "$(dirname "$0")/common.sh"
bad=0

# forbid PATTERN WHY FILES_ALLOWED(regex): checks product code without comments and string literals.
forbid() {
  local found
  found=$(awk -v pattern="$1" '
    { line = $0; gsub(/\\["\\]/, "", line); gsub(/"[^"]*"/, "\"\"", line); gsub(/asm(__)? volatile/, "asm", line); sub(/\/\/.*/, "", line) }
    line ~ /^[ \t]*\/?\*/ { next }
    line ~ pattern { printf "%s:%d: %s\n", FILENAME, FNR, $0 }' $(product | grep -vE "${3:-^$}"))
  [ -z "$found" ] && return
  echo "$found" | sed "s|\$|    <- $2|"
  bad=1
}

forbid '(^|[^_[:alnum:]])throw([^_[:alnum:]]|$)' "return a Status"
forbid '(^|[^_[:alnum:]])goto([^_[:alnum:]]|$)' "RAII and early returns"
forbid '(^|[^_[:alnum:]])(secure_)?getenv[ ]*\(' "use Env" '^(src/base/env\.cc|tools/)'
forbid '(^|[^_[:alnum:]])catch[ ]*\(' "use guarded()" '^(src/base/guard\.h|tools/|perf/)'
forbid '\.detach\(\)' "every thread is joined"
forbid '(^|[^_[:alnum:]])volatile([^_[:alnum:]]|$)' "use std::atomic"
forbid 'std::endl' "use '\\\\n'"
forbid 'using namespace std;' "name what is used"
forbid '#pragma GCC diagnostic' "fix the cause" '^cpu_reduce/highway\.h'
forbid '(^|[^_[:alnum:]])(TODO|FIXME|XXX)([^_[:alnum:]]|$)' "finish it"
forbid '^#define (BPS_)?[a-z]' "macros are BPS_NAME" '^include/bps/nccl_compat\.h'

# A suppression names the suppressed check or gives a reason.
suppressed=$(grep -nE 'NOLINT' $(product) | grep -vE 'NOLINT(NEXTLINE|BEGIN|END)?((\([a-z0-9.,-]+\))?: .|\([a-z0-9.,-]+\)$)')
[ -z "$suppressed" ] || { echo "$suppressed"; bad=1; }
exit $bad

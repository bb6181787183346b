#!/bin/bash
# The shipped libraries and programs run on RHEL 9 and Ubuntu 22.04: they need no symbol version newer than those of glibc
# 2.34 and of GCC 11's libstdc++. Usage: binaries.sh [BUILD]. BINARIES="FILE..." checks these files instead.
. "$(dirname "$0")/common.sh"
build=${1:-build}
command -v objdump >/dev/null || skip "no objdump"
read -ra files <<<"${BINARIES:-}"
if [ ${#files[@]} = 0 ]; then
  mapfile -t files < <(find "$build"/lib "$build"/bin "$build"/tests/gpu "$build"/tests/gpu_ranks -type f \
    ! -name '*.a' -perm -u=x 2>/dev/null)
fi
[ ${#files[@]} -gt 0 ] || skip "no binaries in $build"

# Prints "FILE: needs SYMBOL of VERSION; the newest allowed is LIMIT" for each symbol that is too new.
too_new() { # FILE SYMBOLS
  awk -v file="$1" '
    BEGIN { limit["GLIBC"] = "2.34"; limit["GLIBCXX"] = "3.4.29"; limit["CXXABI"] = "1.3.13" }
    function newer(a, b,   x, y, i) {
      split(a, x, "."); split(b, y, ".")
      for (i = 1; i <= 3; i++) if (x[i] + 0 != y[i] + 0) return x[i] + 0 > y[i] + 0
      return 0
    }
    /\*UND\*/ && match($0, /(GLIBC|GLIBCXX|CXXABI)_[0-9.]+/) {
      version = substr($0, RSTART, RLENGTH); split(version, part, "_")
      if (newer(part[2], limit[part[1]]))
        print file ": needs " $NF " of " version "; the newest allowed is " part[1] "_" limit[part[1]]
    }' <<<"$2"
}
bad=0
for file in "${files[@]}"; do
  symbols=$(objdump -T "$file" 2>/dev/null)
  [[ $symbols == *GLIBC_* ]] || { echo "$file: objdump lists no symbol of glibc"; bad=1; continue; }
  found=$(too_new "$file" "$symbols")
  [ -z "$found" ] || { echo "$found"; bad=1; }
done
exit $bad

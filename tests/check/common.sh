# Sourced by the checks. A check prints the errors and exits with 1, exits with 0, or skips with 77 and prints why. Each
# runs from any directory and takes the build directory as its last argument.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

# sources DIR...: lists bps's C and C++ files there, tracked or new. Without git (a release archive) it lists all files.
sources() {
  {
    git ls-files --cached --others --exclude-standard -- "$@" 2>/dev/null || find "$@" -type f
  } | grep -E '\.(cc|h|c)$' | sort -u | while read -r file; do [ -f "$file" ] && echo "$file"; done
}
product() { sources include src net_plugin cpu_reduce topo tools perf; }
everything() { sources include src net_plugin cpu_reduce topo tools perf tests examples; }
# Packages of their own, which are built without the repository and use the public headers only.
packages() { sources frameworks; }

skip() { echo "$1"; exit 77; }

#!/usr/bin/env bash
# The table of NCCL's functions matches the installed nccl.h: it has every public function with the same signature, and
# the stand-in exports each under both names.
BUILD=$1; . "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.." || exit 1
nm -D --defined-only "$BUILD/lib/nccl/libnccl.so.2" | awk '{ print $3 }' | sort > "$WORK/exported"

header=
for dir in ${BPS_TEST_NCCL_INCLUDE:-} /usr/include /usr/local/include $(compgen -G '/usr/local/cuda*/include' | sort -V); do
  [ -e "$dir/nccl.h" ] && header=$dir/nccl.h
done
[ -n "$header" ] || skip "no nccl.h (BPS_TEST_NCCL_INCLUDE names its directory)"
dir=$(dirname "$header")

# The library's functions: those of nccl.h, and those of nccl_device.h that the header does not define itself.
{
  grep -oE '^(ncclResult_t|const char\*|void) +nccl[A-Za-z0-9]+ ?\(' "$dir/nccl.h"
  [ ! -e "$dir/nccl_device" ] || grep -rhE '^NCCL_EXTERN_C __host__ ' "$dir/nccl_device/"
} | grep -oE 'nccl[A-Za-z0-9]+ ?\(' | tr -d ' (' | sort -u > "$WORK/declared"
[ "$(wc -l < "$WORK/declared")" -ge 30 ] || fail "only $(wc -l < "$WORK/declared") functions found in $header"
missing=$(sort -u "$WORK/declared" <(sed 's/^/p/' "$WORK/declared") | comm -23 - "$WORK/exported")
[ -z "$missing" ] || fail "declared in $header, not exported by the stand-in: $missing"

compile() { # DIRECTORY OPTION...
  g++ -std=c++20 -Wall -Wextra -Werror -Wno-deprecated-declarations -I. -Iinclude -isystem "$@" \
    tests/abi/nccl/signatures.cc -o "$WORK/program" && "$WORK/program"
}
# The headers need CUDA's. Nothing of them is linked, because the program only takes the functions' addresses.
compile "$dir" -Wl,--unresolved-symbols=ignore-all > "$WORK/theirs" 2> "$WORK/log" ||
  { grep -q 'cuda_runtime.h: No such file' "$WORK/log" && skip "no CUDA headers beside $header"; fail "$(head -n 20 "$WORK/log")"; }
compile "$dir" -DOURS > "$WORK/ours" 2>&1 || fail "$(head -n 20 "$WORK/ours")"
diff "$WORK/theirs" "$WORK/ours" || fail "our declarations differ from $header"
echo "  $header: $(wc -l < "$WORK/declared") functions, $(grep -E 'define NCCL_VERSION_CODE' "$header" | awk '{ print $3 }')"

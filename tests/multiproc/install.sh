#!/usr/bin/env bash
# make install and make uninstall: a C program finds bps by pkg-config, a C++ program by CMake and a Python program by
# ctypes. They run with the installed bps-run and server. After uninstall nothing is left.
BUILD=$1; . "$(dirname "$0")/lib.sh"
BUILD=$(realpath "$BUILD")
cd "$(dirname "$0")/../.." || exit 1
stage=$WORK/stage prefix=$WORK/moved/opt
unset BPS_KEY_FILE

make_it() { make --no-print-directory -s BUILD="$BUILD" "$@" > "$WORK/make" 2>&1 || fail "make $*: $(tail -n 5 "$WORK/make")"; }

# Installed files may be moved, as packages do.
make_it install-files DESTDIR="$stage" PREFIX=/opt
mkdir "$WORK/moved" && mv "$stage/opt" "$prefix" || exit 1
export PATH=$prefix/bin:$PATH LD_LIBRARY_PATH=$prefix/lib
version=$(bps-run --version) || fail "bps-run --version"
soname=$(readelf -d "$prefix/lib/libbps.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = libbps.so.0 ] && [ "$(readlink "$prefix/lib/libbps.so")" = "$soname" ] || fail "the soname is $soname"
[ "$(readlink "$prefix/lib/$soname")" = "libbps.so.${version#* }" ] || fail "$soname is $(readlink "$prefix/lib/$soname")"
readelf -S "$prefix/lib/libbps.so" | grep -q '\.debug_' && fail "libbps.so is not stripped"
[ -s "$prefix/share/doc/bps/LICENSE" ] && [ -s "$prefix/share/doc/bps/third-party/libsodium" ] || fail "no licence"
for name in $(grep -ohE '^BPS_API .*\(' include/bps/*.h | grep -oE 'bps[A-Za-z]+\(' | tr -d '('); do
  [ -s "$prefix/share/man/man3/$name.3" ] || fail "no manual page of $name"
done
if command -v mandoc > /dev/null; then
  wrong=$(cd "$prefix/share/man" && mandoc -T lint -W warning man[13]/* | grep -v '\.so is fragile')
  [ -z "$wrong" ] || fail "manual pages: $wrong"
else
  echo "skip: mandoc: not on this machine"
fi
for program in "$prefix"/bin/*; do
  name=$(basename "$program")
  grep -q '^\.SH USAGE' "$prefix/share/man/man1/$name.1" || fail "no manual page of $name"
  (complete() { [ "${*: -1}" = "$name" ]; }; . "$prefix/share/bash-completion/completions/$name") || fail "no completion of $name"
  grep -q "^  '--help:" "$prefix/share/zsh/site-functions/_$name" || fail "no completion of $name for zsh"
  ! command -v zsh > /dev/null || zsh -n "$prefix/share/zsh/site-functions/_$name" || fail "the completion of $name for zsh"
done

# run_all COMMAND...: two ranks and a server of the installation run it.
run_all() {
  bps-run -n 2 -s 1 "$@" > "$WORK/out" 2> "$WORK/err" || fail "$*: $(cat "$WORK/out" "$WORK/err")"
}
run_all bps-perf -b 1M -e 1M -n 2
grep -q '# Out of bounds values : 0 OK' "$WORK/out" || fail "bps-perf: $(cat "$WORK/out")"

# A program that was compiled with a header of another minor version gets an error that names both versions.
mkdir -p "$WORK/newer/bps"
cp include/bps/*.h "$WORK/newer/bps"
sed -i 's/define BPS_MINOR .*/define BPS_MINOR 77/' "$WORK/newer/bps/bps.h"
cat > "$WORK/start.c" <<'EOF'
#include <bps/bps.h>
#include <stdio.h>
int main(void) {
  bpsComm_t comm;
  const bpsResult_t result = bpsCommInitFromEnv(&comm);
  printf("%s\n", bpsGetLastError(NULL));
  return result == bpsSuccess ? bpsCommDestroy(comm) : 10 + result;
}
EOF
for compiler in "cc -std=c99" "c++ -x c++ -fvisibility=hidden"; do
  for header in include "$WORK/newer"; do
    $compiler -Wall -Wextra -Wpedantic -Werror "-I$header" "$WORK/start.c" -o "$WORK/start" -x none "$prefix/lib/libbps.so" ||
      fail "$compiler cannot compile with $header"
    "$WORK/start" > "$WORK/out"
    status=$?
    if [ "$header" = include ]; then [ $status = 0 ] || fail "$compiler, own header: $(cat "$WORK/out")"
    else
      [ $status = 15 ] && grep -q "bps.h of version 0.77.0, but the loaded libbps has version ${version#* };" "$WORK/out" ||
        fail "$compiler, another header: status $status, $(cat "$WORK/out")"
    fi
  done
done

if command -v pkg-config > /dev/null; then
  export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  [[ $version == *"$(pkg-config --modversion bps)"* ]] || fail "pkg-config says $(pkg-config --modversion bps), bps-run $version"
  cc -std=c99 examples/all_reduce.c -o "$WORK/c" $(pkg-config --cflags --libs bps) || fail "the C program does not compile"
  run_all "$WORK/c"
else
  echo "skip: pkg-config: not on this machine"
fi

if command -v cmake > /dev/null; then
  mkdir "$WORK/cmake"
  cat > "$WORK/cmake/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.13)
project(user CXX)
find_package(bps 0.1 REQUIRED)
add_executable(user user.cc)
target_link_libraries(user bps::bps)
EOF
  cat > "$WORK/cmake/user.cc" <<'EOF'
#include <bps/bps.h>
#include <cstdio>
int main() {
  int version = 0;
  if (bpsGetVersion(&version) != bpsSuccess || version != BPS_VERSION_CODE) return 1;
  std::printf("version %d\n", version);
}
EOF
  (cd "$WORK/cmake" && cmake -DCMAKE_PREFIX_PATH="$prefix" . && cmake --build .) > "$WORK/make" 2>&1 ||
    fail "the CMake program does not build: $(tail -n 15 "$WORK/make")"
  run_all "$WORK/cmake/user"
  sed -i 's/bps 0.1/bps 0.2/' "$WORK/cmake/CMakeLists.txt"
  (cd "$WORK/cmake" && cmake -DCMAKE_PREFIX_PATH="$prefix" .) > /dev/null 2>&1 && fail "version 0.1 satisfies a request for 0.2"
else
  echo "skip: CMake: not on this machine"
fi

if command -v python3 > /dev/null; then
  run_all python3 -c 'import ctypes
version = ctypes.c_int()
assert ctypes.CDLL("libbps.so").bpsGetVersion(ctypes.byref(version)) == 0 and version.value > 0'
fi

# The same with the folders of a Debian package.
deep=$WORK/deep/usr
make_it install-files PREFIX="$deep" LIBDIR="$deep/lib/triplet"
if command -v pkg-config > /dev/null; then
  cc examples/all_reduce.c -o "$WORK/deep_c" $(PKG_CONFIG_PATH=$deep/lib/triplet/pkgconfig pkg-config --cflags --libs bps) ||
    fail "with LIBDIR the C program does not compile"
  LD_LIBRARY_PATH=$deep/lib/triplet run_all "$WORK/deep_c"
fi
make_it uninstall PREFIX="$deep" LIBDIR=lib/triplet
left=$(find "$deep" ! -type d)
[ -z "$left" ] || fail "uninstall with LIBDIR leaves $left"
make -s BUILD="$BUILD" install-files PREFIX="$deep" LIBDIR=/elsewhere > "$WORK/make" 2>&1 && fail "a LIBDIR outside PREFIX is accepted"
grep -q 'LIBDIR=/elsewhere must be a folder in PREFIX' "$WORK/make" || fail "a wrong LIBDIR is not named: $(cat "$WORK/make")"

# Uninstall leaves the files of others.
mkdir -p "$prefix/lib/cmake/other"
touch "$prefix/lib/other.so" "$prefix/lib/cmake/other/other.cmake"
make_it uninstall PREFIX="$prefix"
left=$(cd "$prefix" && find . -type f -o -type l -o -name bps | sort | tr '\n' ' ')
[ "$left" = "./lib/cmake/other/other.cmake ./lib/other.so " ] || fail "uninstall leaves $left"
make -s BUILD="$BUILD" install-files PREFIX= > "$WORK/make" 2>&1 && fail "an empty PREFIX is accepted"
grep -q 'PREFIX is empty' "$WORK/make" || fail "an empty PREFIX is not named: $(cat "$WORK/make")"
echo "install: all right"

#!/bin/bash
# Installs the missing packages for building and testing with apt, through sudo if the user is not root. Prints
# nothing if no package is missing. The packages of the second group are optional. Without them everything builds,
# but the checks that need them are skipped.
set -u

# Each line has a test whether the package is installed, and the name of the package (Debian 12, Ubuntu 22.04 and
# 24.04).
required="
gcc12: g++-12
cmd:make make
header:hwy/highway.h libhwy-dev
header:sodium.h libsodium-dev
header:expat.h libexpat1-dev
header:fmt/format.h libfmt-dev
header:nlohmann/json.hpp nlohmann-json3-dev
header:CLI/CLI.hpp libcli11-dev
header:gtest/gtest.h libgtest-dev
header:gmock/gmock.h libgmock-dev
"
optional="
lib:libhwloc.so.15 libhwloc15
header:benchmark/benchmark.h libbenchmark-dev
cmd:clang++ clang
cmd:clang-format clang-format
cmd:clang-tidy clang-tidy
cmd:ip iproute2
header:infiniband/verbs.h libibverbs-dev
cmd:python3 python3
cmd:spin spin
"

there() {
  case $1 in
    gcc12:) for name in g++ g++-14 g++-13 g++-12; do
        [ "$($name -dumpversion 2>/dev/null | cut -d. -f1)" -ge 12 ] 2>/dev/null && return
      done
      return 1 ;;
    lib:*) compgen -G "/usr/lib/*-linux-gnu/${1#lib:}" >/dev/null || compgen -G "/lib/*-linux-gnu/${1#lib:}" >/dev/null ;;
    cmd:*) command -v "${1#cmd:}" >/dev/null ;;
    header:*) [ -e "/usr/include/${1#header:}" ] || compgen -G "/usr/include/*-linux-gnu/${1#header:}" >/dev/null ;;
  esac
}

missing() {
  local test package
  while read -r test package; do
    [ -z "$test" ] || there "$test" || echo "$package"
  done <<<"$1"
}

# On some systems, a separate package contains the sanitizer and fuzzer runtimes of clang.
missing_runtime() {
  command -v clang++ >/dev/null || { apt-cache show libclang-rt-dev >/dev/null 2>&1 && echo libclang-rt-dev; return; }
  local dir
  dir=$(clang++ -print-runtime-dir 2>/dev/null)
  compgen -G "$dir/libclang_rt.fuzzer*" >/dev/null || compgen -G "${dir%/*}/*/libclang_rt.fuzzer*" >/dev/null && return
  echo "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"
}

apt_get() {
  local run=()
  [ "$(id -u)" = 0 ] || run=(sudo)
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >/dev/null
}

needed=$(missing "$required")
wanted=$(missing "$optional"; missing_runtime)
[ -n "$needed$wanted" ] || exit 0
if ! command -v apt-get >/dev/null; then
  echo "deps: no apt-get here; install by hand:" $needed $wanted >&2
  [ -z "$needed" ]
  exit
fi
echo "deps: installing" $needed $wanted
apt_get update || echo "deps: apt-get update failed; using the existing package lists" >&2
if [ -n "$needed" ] && ! apt_get install --no-install-recommends -y $needed; then
  echo "deps: cannot install" $needed >&2
  exit 1
fi
for package in $wanted; do
  apt_get install --no-install-recommends -y "$package" || echo "deps: cannot install $package; the checks that need it are skipped" >&2
done

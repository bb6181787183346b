#!/bin/bash
# Installs the missing packages for building and testing with apt, dnf or zypper, through sudo if the user is not root.
# Prints nothing if no package is missing. The packages of the second group are optional. Without them everything
# builds, but the checks that need them are skipped.
# Usage: deps.sh [--print apt|dnf|zypper]. With --print it prints the names of all packages, also of those that are
# installed, and installs nothing.
set -u

# Each line has a test whether the package is installed, and the names of the package for apt (Debian 12, Ubuntu 22.04
# and 24.04), dnf (Fedora, RHEL with EPEL) and zypper (openSUSE). "pkgconfig(NAME)" and "cmake(NAME)" are names of
# packages by what they contain. A comma separates two packages, and "-" means that the system has none.
required="
gcc12:                    g++-12             gcc-c++                          gcc13-c++
cmd:make                  make               make                             make
header:hwy/highway.h      libhwy-dev         highway-devel                    pkgconfig(libhwy)
header:sodium.h           libsodium-dev      libsodium-devel,libsodium-static libsodium-devel
header:expat.h            libexpat1-dev      expat-devel,expat-static         libexpat-devel
header:fmt/format.h       libfmt-dev         fmt-devel                        fmt-devel
header:nlohmann/json.hpp  nlohmann-json3-dev json-devel                       cmake(nlohmann_json)
header:CLI/CLI.hpp        libcli11-dev       cli11-devel                      cmake(CLI11)
header:gtest/gtest.h      libgtest-dev       gtest-devel                      pkgconfig(gtest)
header:gmock/gmock.h      libgmock-dev       gmock-devel                      pkgconfig(gmock)
"
optional="
lib:libhwloc.so.15           libhwloc15       hwloc-libs             libhwloc15
header:benchmark/benchmark.h libbenchmark-dev google-benchmark-devel pkgconfig(benchmark)
cmd:clang++                  clang            clang,compiler-rt      clang
cmd:clang-format             clang-format     clang-tools-extra      clang-tools
cmd:clang-tidy               clang-tidy       clang-tools-extra      clang-tools
cmd:ip                       iproute2         iproute                iproute2
header:infiniband/verbs.h    libibverbs-dev   rdma-core-devel        rdma-core-devel
cmd:python3                  python3          python3                python3
python:yaml                  python3-yaml     python3-pyyaml         python3-PyYAML
cmd:spin                     spin             -                      -
"

there() {
  case $1 in
    gcc12:) for name in g++ g++-14 g++-13 g++-12; do
        [ "$($name -dumpversion 2>/dev/null | cut -d. -f1)" -ge 12 ] 2>/dev/null && return
      done
      return 1 ;;
    lib:*) compgen -G "/usr/lib/*-linux-gnu/${1#lib:}" >/dev/null || compgen -G "/lib/*-linux-gnu/${1#lib:}" >/dev/null ||
      [ -e "/usr/lib64/${1#lib:}" ] ;;
    cmd:*) command -v "${1#cmd:}" >/dev/null ;;
    python:*) python3 -c "import ${1#python:}" 2>/dev/null ;;
    header:*) [ -e "/usr/include/${1#header:}" ] || compgen -G "/usr/include/*-linux-gnu/${1#header:}" >/dev/null ;;
  esac
}

# packages TABLE [TEST]: the names of the packages whose test fails; with the test "false", of all.
packages() {
  local test apt dnf zypper name
  while read -r test apt dnf zypper; do
    [ -n "$test" ] && ! "${2:-there}" "$test" || continue
    name=${!manager}
    [ "$name" = - ] || tr , '\n' <<<"$name"
  done <<<"$1"
}
missing() { packages "$1" | awk '!seen[$0]++'; }

# On some systems, a separate package contains the sanitizer and fuzzer runtimes of clang.
missing_runtime() {
  command -v clang++ >/dev/null || { apt-cache show libclang-rt-dev >/dev/null 2>&1 && echo libclang-rt-dev; return; }
  local dir
  dir=$(clang++ -print-runtime-dir 2>/dev/null)
  compgen -G "$dir/libclang_rt.fuzzer*" >/dev/null || compgen -G "${dir%/*}/*/libclang_rt.fuzzer*" >/dev/null && return
  echo "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"
}

as_root() {
  local run=()
  [ "$(id -u)" = 0 ] || run=(sudo)
  "${run[@]}" "$@" >/dev/null
}

# install_packages NAME...: with the package manager of this system
install_packages() {
  case $manager in
    apt) as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install --no-install-recommends -y "$@" ;;
    dnf) as_root dnf -q -y --setopt=install_weak_deps=False install "$@" ;;
    zypper) as_root zypper -q --non-interactive install --no-recommends "$@" ;;
  esac
}

manager=apt
if [ $# -gt 0 ]; then
  [ $# = 2 ] && [ "$1" = --print ] || { echo "deps: unknown option $*; usage: deps.sh [--print apt|dnf|zypper]" >&2; exit 2; }
  case $2 in
    apt | dnf | zypper) manager=$2 ;;
    *) echo "deps: unknown package manager $2; expected apt, dnf or zypper" >&2; exit 2 ;;
  esac
  { packages "$required" false; packages "$optional" false; } | awk '!seen[$0]++'
  exit
fi
found=
if command -v apt-get >/dev/null; then found=apt; else
  for name in dnf zypper; do command -v $name >/dev/null && found=$name && break; done
fi
manager=${found:-apt}

needed=$(missing "$required")
wanted=$(missing "$optional"; [ "$manager" != apt ] || missing_runtime)
[ -n "$needed$wanted" ] || exit 0
if [ -z "$found" ]; then
  echo "deps: no apt-get, dnf or zypper here; install by hand (names of Debian):" $needed $wanted >&2
  [ -z "$needed" ]
  exit
fi
echo "deps: installing" $needed $wanted
if [ $manager = apt ]; then
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 update ||
    echo "deps: apt-get update failed; using the existing package lists" >&2
fi
if [ -n "$needed" ] && ! install_packages $needed; then
  echo "deps: cannot install" $needed >&2
  exit 1
fi
for package in $wanted; do
  install_packages "$package" || echo "deps: cannot install $package; the checks that need it are skipped" >&2
done

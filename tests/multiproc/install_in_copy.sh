#!/usr/bin/env bash
# The commands of docs/install.md in a copy of this system: make install, programs in C, C++ and Python, make uninstall.
# Then no file is left.
BUILD=$1; . "$(dirname "$0")/lib.sh"
BUILD=$(realpath "$BUILD")
cd "$(dirname "$0")/../.." || exit 1
{
  documented "From source" | grep -v '^make deps$'
  documented_programs
  echo 'cd /bps'
  documented "Remove what was installed from source"
  echo 'hash -r; ! command -v bps-run && ! ldconfig -p | grep libbps'
} > "$WORK/script"
in_system_copy install | tee "$WORK/said"
status=${PIPESTATUS[0]}
[ "$status" = 0 ] || exit "$status"
! grep -q '^skip: install' "$WORK/said" || exit 77

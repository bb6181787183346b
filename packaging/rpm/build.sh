#!/bin/bash
# Builds the RPM packages bps, bps-libs, bps-devel and bps-server from a finished build.
# Usage: build.sh BUILD VERSION OUTPUT_FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1") version=$2 output=$3
command -v rpmbuild >/dev/null || { echo "make rpm: no rpmbuild; install rpm-build (Debian: rpm)" >&2; exit 1; }
[ "$(sed -n 's/^Version: *//p' packaging/rpm/bps.spec)" = "$version" ] ||
  { echo "make rpm: packaging/rpm/bps.spec does not have version $version of bps.h" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A Debian machine has the packages that the build needs, but not in the database of rpm.
nodeps=()
[ ! -e /etc/debian_version ] || nodeps=(--nodeps)
rpmbuild -bb "${nodeps[@]}" --define "_topdir $work" --define "bps_source $PWD" --define "bps_build $build" \
  packaging/rpm/bps.spec >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
rm -rf "$output"
mkdir -p "$output"
mv "$work"/RPMS/*/*.rpm "$output"

#!/usr/bin/env bash
# The Debian and RPM packages. Debian: dpkg installs them under an empty folder, they run there, and dpkg removes all of their files.
# Then the same in a copy of this system, with the commands of docs/install.md. RPM: the same under an empty folder.
BUILD=$1; . "$(dirname "$0")/lib.sh"
BUILD=$(realpath "$BUILD")
cd "$(dirname "$0")/../.." || exit 1
for tool in dpkg dpkg-deb dpkg-shlibdeps dpkg-architecture; do command -v $tool > /dev/null || skip "no $tool"; done
unset BPS_KEY_FILE
version=$("$BIN/bps-run" --version) version=${version#* }
packages=(libbps0 libbps-dev bps-tools bps-server)

DEBEMAIL=maintainers@bps-project.org packaging/deb/build.sh "$BUILD" "$version" "$WORK/deb" > "$WORK/out" 2>&1 || fail "build.sh: $(tail -n 5 "$WORK/out")"
for name in "${packages[@]}"; do
  [ "$(dpkg-deb -f "$WORK/deb/${name}_$version"_*.deb Version)" = "$version" ] || fail "no package $name of version $version"
done
[ "$(ls "$WORK/deb" | wc -l)" = 4 ] || fail "not four packages: $(ls "$WORK/deb")"
dpkg-deb -f "$WORK"/deb/libbps0_*.deb Depends | grep -q 'libc6 (>= ' || fail "libbps0 does not depend on libc6"
dpkg-deb -f "$WORK"/deb/bps-tools_*.deb Depends | grep -q "libbps0 (= $version)" || fail "bps-tools does not depend on libbps0"
# The packages hold all that make install installs.
dpkg-deb -c "$WORK"/deb/bps-tools_*.deb | grep '/usr/share/man/man1/bps-perf.1.gz$' > /dev/null || fail "no manual page of bps-perf"
dpkg-deb -c "$WORK"/deb/libbps0_*.deb | grep '/bps/nccl/libnccl.so.2$' > /dev/null || fail "no stand-in for NCCL"

# install_into ROOT, remove_from ROOT: the maintainer's scripts see DPKG_ROOT and leave this machine alone.
into() {
  dpkg --root="$1" --log="$WORK/dpkg.log" --force-not-root --force-script-chrootless --force-depends "${@:2}" > "$WORK/out" 2>&1 ||
    fail "dpkg ${*:2}: $(tail -n 5 "$WORK/out")"
}
root=$WORK/root
mkdir -p "$root"/var/lib/dpkg/{info,updates}
touch "$root/var/lib/dpkg/status"
into "$root" --install "$WORK"/deb/*.deb
libraries=$root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
LD_LIBRARY_PATH=$libraries "$root/usr/bin/bps-run" -n 2 -s 1 "$root/usr/bin/bps-perf" -b 64K -e 64K -n 2 > "$WORK/out" 2>&1 ||
  fail "the installed programs: $(cat "$WORK/out")"
grep -q '# Out of bounds values : 0 OK' "$WORK/out" || fail "bps-perf: $(cat "$WORK/out")"
into "$root" --purge "${packages[@]}"
left=$(cd "$root" && find . -path ./var/lib/dpkg -prune -o ! -type d -print; ls -d "$root"/usr 2> /dev/null)
[ -z "$left" ] || fail "after dpkg --purge these are left: $left"

if command -v lintian > /dev/null; then
  wrong=$(lintian --no-cfg --allow-root --fail-on none "$WORK"/deb/*.deb 2>&1 | grep -E '^[EW]:')
  [ -z "$wrong" ] || fail "lintian: $wrong"
else
  echo "skip: lintian: not on this machine"
fi

{
  echo "mkdir -p build && rm -rf build/deb && cp -r '$WORK/deb' build/deb"
  documented "Debian and Ubuntu" | grep -v '^make deb$'
  documented_programs
  documented "Remove the packages of Debian and Ubuntu"
  echo 'hash -r; ! command -v bps-run && ! ldconfig -p | grep libbps'
} > "$WORK/script"
in_system_copy "Debian packages"

if command -v rpmbuild > /dev/null; then
  packaging/rpm/build.sh "$BUILD" "$version" "$WORK/rpm" > "$WORK/out" 2>&1 || fail "rpm: $(tail -n 5 "$WORK/out")"
  on_debian=()
  [ ! -e /etc/debian_version ] || on_debian=(--force-debian)
  mkdir "$WORK/rpm_root"
  rpm_root() { rpm --root "$WORK/rpm_root" "$@" > "$WORK/out" 2>&1 || fail "rpm $1: $(tail -n 5 "$WORK/out")"; }
  rpm_root --initdb
  rpm_root "${on_debian[@]}" -i --nodeps --noscripts "$WORK"/rpm/*.rpm
  ("$WORK/rpm_root/usr/bin/bps-run" --version && "$WORK/rpm_root/usr/bin/bps-server" --version) > "$WORK/out" 2>&1 ||
    fail "the programs of the RPM packages: $(cat "$WORK/out")"
  [ -n "$(find "$WORK/rpm_root" -name 'bpsAllReduce.3*')" ] || fail "bps-devel has no manual page of bpsAllReduce"
  rpm_root "${on_debian[@]}" -e --nodeps --noscripts bps bps-libs bps-devel bps-server
  left=$(cd "$WORK/rpm_root" && find . -path '*/rpm' -prune -o -path '*/.rpmdb' -prune -o ! -type d -print)
  [ -z "$left" ] || fail "after rpm -e these are left: $left"
  if command -v rpmlint > /dev/null; then
    rpmlint -r packaging/rpm/bps.rpmlintrc packaging/rpm/bps.spec > "$WORK/out" 2>&1
    grep -q ' 0 errors, 0 warnings' "$WORK/out" || fail "rpmlint: $(tail -n 8 "$WORK/out")"
  else
    echo "skip: rpmlint: not on this machine"
  fi
else
  echo "skip: RPM packages: no rpmbuild on this machine"
fi
echo "packages: all right"

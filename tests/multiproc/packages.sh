#!/usr/bin/env bash
# The Debian packages: dpkg installs them under an empty folder, they run there, and dpkg removes all of their files.
# Then, if this machine lets us mount an overlay, the same in a copy of this system, with its own dpkg and linker cache.
BUILD=$1; . "$(dirname "$0")/lib.sh"
BUILD=$(realpath "$BUILD")
cd "$(dirname "$0")/../.." || exit 1
for tool in dpkg dpkg-deb dpkg-shlibdeps dpkg-architecture; do command -v $tool > /dev/null || skip "no $tool"; done
unset BPS_KEY_FILE
version=$("$BIN/bps-run" --version) version=${version#* }
packages=(libbps0 libbps-dev bps-tools bps-server)

packaging/deb/build.sh "$BUILD" "$version" "$WORK/deb" > "$WORK/out" 2>&1 || fail "build.sh: $(tail -n 5 "$WORK/out")"
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

# In a mount namespace, with an overlay over this system's files: dpkg checks dependencies and runs ldconfig.
cat > "$WORK/inside.sh" <<'E2'
set -e
mount -t tmpfs tmpfs "$1/over"
mkdir "$1/over/upper" "$1/over/work" "$1/over/system"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/over/upper,workdir=$1/over/work" "$1/over/system"
mount --bind /proc "$1/over/system/proc"
mount --bind /dev "$1/over/system/dev"
cp "$1"/deb/*.deb "$1/over/system/"
echo mounted
chroot "$1/over/system" /bin/sh -ec '
  dpkg --install /*.deb
  cd /
  bps-run -n 2 -s 1 bps-perf -b 64K -e 64K -n 2
  bps-run -n 2 -s 1 python3 -c "import ctypes; assert ctypes.CDLL(\"libbps.so.0\").bpsGetVersion(None) != 0"
  dpkg --purge libbps0 libbps-dev bps-tools bps-server
  ! command -v bps-run && ! ldconfig -p | grep libbps'
E2
mkdir "$WORK/over"
unshare --mount sh "$WORK/inside.sh" "$WORK" > "$WORK/out" 2>&1
status=$?
if ! grep -q '^mounted' "$WORK/out"; then echo "not run in a copy of this system: $(tail -n 1 "$WORK/out")"
elif [ $status != 0 ]; then fail "in a copy of this system: $(tail -n 20 "$WORK/out")"
else echo "also in a copy of this system"; fi
echo "Debian packages: all right"

#!/bin/bash
# Builds the Debian packages libbps0, libbps-dev, bps-tools and bps-server from a finished build.
# Usage: build.sh BUILD VERSION OUTPUT_FOLDER. DEBFULLNAME and DEBEMAIL name the maintainer, as in other Debian tools.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1 version=$2 output=$3
for tool in dpkg-deb dpkg-shlibdeps dpkg-architecture gzip; do
  command -v $tool >/dev/null || { echo "make deb: no $tool; install dpkg-dev" >&2; exit 1; }
done
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH) architecture=$(dpkg-architecture -qDEB_HOST_ARCH)
maintainer="${DEBFULLNAME:-bps maintainers} <${DEBEMAIL:-bps@localhost.localdomain}>"
major=${version%%.*}
# The packages of one commit have the same bytes wherever they are built.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
all=$work/all lib=usr/lib/$triplet
make --no-print-directory -s BUILD="$build" DESTDIR="$all" PREFIX=/usr LIBDIR="lib/$triplet" SYSCONFDIR=/etc RUNPATH= install-files >"$work/log" 2>&1 ||
  { tail -n 5 "$work/log" >&2; exit 1; }

# give PACKAGE PATH...: moves files of the installation into a package.
give() {
  local package=$1 path
  shift
  for path; do
    mkdir -p "$work/$package/$(dirname "$path")"
    mv "$all/$path" "$work/$package/$path"
  done
}
give_program() {
  give "$1" "usr/bin/$2" "usr/share/man/man1/$2.1" "usr/share/bash-completion/completions/$2"
  # Debian's zsh reads the completions of packages from another folder.
  mkdir -p "$work/$1/usr/share/zsh/vendor-completions"
  mv "$all/usr/share/zsh/site-functions/_$2" "$work/$1/usr/share/zsh/vendor-completions/"
}

give "libbps$major" "$lib/libbps.so.$major" "$lib/libbps.so.$version" "$lib/libnccl-net-bps.so" "$lib/libbps-nccl.so" "$lib/bps"
find "$work/libbps$major/$lib" -type f -exec chmod 644 {} +
give libbps-dev usr/include "$lib/libbps.so" "$lib/pkgconfig" "$lib/cmake"
[ ! -d "$all/usr/share/man/man3" ] || give libbps-dev usr/share/man/man3
for program in "$all"/usr/bin/*; do
  case $(basename "$program") in
    bps-server) give_program bps-server bps-server ;;
    *) give_program bps-tools "$(basename "$program")" ;;
  esac
done
# The unit of the server and its settings, if this tree has them.
for folder in usr/lib/systemd etc/bps; do [ ! -d "$all/$folder" ] || give bps-server "$folder"; done

# The licence of bps, then those of the code that the binaries contain.
copyright() {
  local licence
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: bps\n'
  printf 'Comment: The binaries also contain code of the projects below.\n'
  for licence in packaging/licences/*; do
    printf ' .\n ==== %s ====\n .\n' "$(basename "$licence")"
    sed -e 's/^$/./' -e 's/^/ /' "$licence"
  done
  printf '\nFiles: *\nCopyright: the authors of bps\nLicense: Apache-2.0\n On Debian systems, the text of the Apache License'
  printf ' 2.0 is in\n /usr/share/common-licenses/Apache-2.0.\n'
}
changelog() {
  printf 'bps (%s) unstable; urgency=medium\n\n  * Version %s.\n\n -- %s  %s\n' "$version" "$version" "$maintainer" \
    "$(date -R -u -d "@$SOURCE_DATE_EPOCH")"
}

# depends PACKAGE: the packages of the libraries that the programs and libraries of PACKAGE need.
mkdir -p "$work/source/debian"
printf 'Source: bps\n\nPackage: libbps%s\nArchitecture: any\n' "$major" >"$work/source/debian/control"
printf 'libbps %s libbps%s (= %s)\n' "$major" "$major" "$version" >"$work/source/debian/shlibs.local"
depends() {
  local files
  mapfile -t files < <(find "$work/$1/usr/bin" "$work/$1/$lib" -type f 2>/dev/null | grep -v "/cmake/\|/pkgconfig/")
  [ ${#files[@]} = 0 ] && return
  (cd "$work/source" && dpkg-shlibdeps -O -l"$work/libbps$major/$lib" "${files[@]}" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }) |
    sed 's/^shlibs:Depends=//'
}

# overrides PACKAGE: what lintian shall not report, each with a reason.
overrides() {
  local file=$work/$1/usr/share/lintian/overrides/$1
  mkdir -p "$(dirname "$file")"
  {
    echo '# No bug asked for the package.'
    echo "$1: initial-upload-closes-no-bugs *"
    case $1 in
      libbps[0-9]*)
        echo '# NCCL opens net plugins by these names, and a preload library is named by its user.'
        echo "$1: shared-library-lacks-version *"
        echo "$1: package-name-doesnt-match-sonames *"
        ;;&
      libbps[0-9]* | bps-*)
        echo '# bps is loaded into other programs, so it contains its libraries, hidden, and never meets another copy.'
        echo "$1: embedded-library *"
        ;;
    esac
  } >"$file"
}

# package NAME SECTION DESCRIPTION TEXT [FIELD...]: each FIELD is a line of the control file.
package() {
  local name=$1 section=$2 description=$3 text=$4 root=$work/$1 libraries
  shift 4
  libraries=$(depends "$name")
  mkdir -p "$root/DEBIAN" "$root/usr/share/doc/$name"
  copyright >"$root/usr/share/doc/$name/copyright"
  changelog | gzip -9n >"$root/usr/share/doc/$name/changelog.gz"
  find "$root/usr/share/man" -type f -exec gzip -9n {} + 2>/dev/null || :
  {
    printf 'Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n' "$name" "$version" "$architecture" "$maintainer"
    printf 'Source: bps\nPriority: optional\nSection: %s\nInstalled-Size: %s\n' "$section" "$(du -sk --exclude=DEBIAN "$root" | cut -f1)"
    printf '%s\n' "$@" | sed '/^$/d' | sed "s/@LIBRARIES@/$libraries/"
    printf 'Description: %s\n%s\n' "$description" "$(fold -s -w 78 <<<"$text" | sed 's/^/ /; s/ *$//')"
  } >"$root/DEBIAN/control"
  if [ -d "$root/etc" ]; then (cd "$root" && find etc -type f -printf '/%p\n' | sort) >"$root/DEBIAN/conffiles"; fi
  overrides "$name"
  (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
  dpkg-deb --root-owner-group --build "$root" "$output" >/dev/null
}

printf 'activate-noawait ldconfig\n' >"$work/triggers"
install -D -m 644 -t "$work/libbps$major/DEBIAN" "$work/triggers"
printf 'libbps %s libbps%s (>= %s)\n' "$major" "$major" "$version" >"$work/libbps$major/DEBIAN/shlibs"

# script NAME TEXT: a maintainer's script of bps-server. The administrator starts the service, because it first needs a
# key that the workers share.
script() {
  mkdir -p "$work/bps-server/DEBIAN"
  printf '#!/bin/sh\nset -e\n%s\n' "$2" >"$work/bps-server/DEBIAN/$1"
  chmod 755 "$work/bps-server/DEBIAN/$1"
}
if [ -d "$work/bps-server/usr/lib/systemd" ]; then
  running='[ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]'
  script postinst "if [ \"\$1\" = configure ] && $running; then
  systemctl daemon-reload || :
  [ -z \"\$2\" ] || deb-systemd-invoke try-restart bps-server.service || :
fi"
  script prerm "if [ \"\$1\" = remove ] && $running; then
  deb-systemd-invoke stop bps-server.service || :
fi
if [ \"\$1\" = remove ] && [ -z \"\$DPKG_ROOT\" ] && command -v systemctl >/dev/null; then
  systemctl --no-reload --quiet disable bps-server.service || :
fi"
  script postrm "if [ \"\$1\" = remove ] && $running; then
  systemctl daemon-reload || :
fi"
fi

rm -rf "$output"
mkdir -p "$output"
about='bps is a library that all-reduces gradients over several worker machines. Spare CPU machines, the summation servers, can do a computed share of the sum.'
package "libbps$major" libs 'all-reduce over worker machines with summation servers: libraries' \
  "$about This package has the libraries: that of bps, its net plugin for TCP, RDMA verbs and shared memory, and those that stand in for NCCL." \
  'Multi-Arch: same' 'Depends: @LIBRARIES@' 'Suggests: libibverbs1, libhwloc15'
package libbps-dev libdevel 'all-reduce over worker machines with summation servers: headers' \
  "$about This package has what a program needs to be built with bps: the headers, and the files for pkg-config and CMake." \
  'Multi-Arch: same' "Depends: libbps$major (= $version)" 'Suggests: pkgconf | cmake'
package bps-tools utils 'all-reduce over worker machines with summation servers: tools' \
  "$about This package has the programs that start ranks, measure, show the data paths and check net plugins." \
  'Depends: @LIBRARIES@' 'Recommends: bps-server'
package bps-server net 'all-reduce over worker machines with summation servers: the server' \
  "$about This package has the server." \
  "Depends: libbps$major (= $version), @LIBRARIES@"

#!/usr/bin/env bash
# Runs a script as root in a copy of this system: an overlay in a mount namespace of its own, whose changes are gone
# afterwards. /bps is a copy of the source tree, with the build at /bps/build.
# Usage: system_copy.sh FOLDER BUILD SCRIPT. The output begins with "mounted"; without this line the copy could not be
# made. After the script, a line "left: PATH" names each file that the script has created, changed or removed and not
# put back, outside of temporary folders and the records of package managers and the dynamic linker.
set -e
if [ "$1" != --inside ]; then exec unshare --mount "$0" --inside "$@"; fi
folder=$2 build=$(realpath "$3") script=$(realpath "$4")
source=$(realpath "$(dirname "$0")/../..")
mkdir -p "$folder"
mount -t tmpfs tmpfs "$folder"
# overlay LOWER NAME TARGET
overlay() {
  mkdir -p "$folder/$2.upper" "$folder/$2.work" "$3"
  mount -t overlay overlay -o "lowerdir=$1,upperdir=$folder/$2.upper,workdir=$folder/$2.work" "$3"
}
system=$folder/system
overlay / root "$system"
overlay "$source" source "$system/bps"
overlay "$build" build "$system/bps/build"
mount --rbind /proc "$system/proc"
mount --rbind /dev "$system/dev"
cp "$script" "$system/script.sh"
echo mounted
status=0
chroot "$system" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C \
  DEBIAN_FRONTEND=noninteractive BPS_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 \
  bash -ec 'cd /bps; sudo() { "$@"; }; . /script.sh' </dev/null || status=$?
(cd "$folder/root.upper" && find . ! -type d) | sed 's/^\.//' |
  { grep -vE '^/(bps/|script\.sh|tmp/|root/|run/|var/(lib/(dpkg|apt|systemd)|log|cache|tmp)/|etc/ld\.so\.cache)' || :; } | sed 's/^/left: /'
exit $status

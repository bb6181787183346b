#!/usr/bin/env bash
# soft_roce.sh COMMAND...: runs COMMAND as root in a small virtual machine whose kernel has software RDMA devices. It
# runs verbs code without an RDMA NIC and without the permission to load kernel modules.
#
#   tests/vm/soft_roce.sh ibv_devinfo
#   VM_MEMORY=2048 tests/vm/soft_roce.sh bash -c 'cd /path/to/bps && build/bin/net-plugin-check build/lib/libnccl-net-bps.so'
#
# The guest sees this machine's files read-only. /tmp (except the current directory, if it is there), /run and /dev/shm
# belong to the guest and vanish with it. Its devices are rxe0 (network interface roce0, 10.9.0.1) and rxe1 (roce1,
# 10.9.0.2); GID 1 of each is the RoCE v2 GID of that address. A device reaches only itself: two processes use rxe0, or
# rxe1, or both as two rails. (The kernel sends packets to a local address over loopback, so rxe0 never reaches rxe1.)
# COMMAND's standard output and error are merged on standard output, and its exit status is the script's.
#
#   VM_MEMORY  MiB, 2048        VM_CPUS    2
#   VM_SECONDS limit, 180       VM_KERNEL  an image /boot/vmlinuz-RELEASE; the newest
#
# Status 124: COMMAND exceeds VM_SECONDS. Status 125: the guest ends before COMMAND. Status 77: something is missing;
# the last line names it. On Debian: qemu-system-x86 busybox-static cpio kmod linux-image-amd64 rdma-core
# ibverbs-providers iproute2. The accelerator is KVM if the CPU's own virtualisation is available, else QEMU's
# emulation, which is about ten times slower.
set -euo pipefail
me=${0##*/}
missing() { echo "$me: no $1 (Debian: $2)"; exit 77; }

[ $# -gt 0 ] || { echo "usage: $me COMMAND..." >&2; exit 2; }
[ "$(uname -m)" = x86_64 ] || missing "guest for $(uname -m): only x86_64 has one" -
command -v qemu-system-x86_64 >/dev/null || missing qemu-system-x86_64 qemu-system-x86
command -v cpio >/dev/null || missing cpio cpio
command -v modprobe >/dev/null || missing modprobe kmod
command -v rdma >/dev/null || missing "rdma tool" iproute2
compgen -G '/usr/lib/*/libibverbs/librxe-rdmav*.so' >/dev/null || missing "user-space driver of rxe" ibverbs-providers
busybox=$(command -v busybox) || missing busybox busybox-static
[[ $(head -c 4096 "$busybox" | tr -d '\0') != *ld-linux* ]] || missing "static busybox" busybox-static

kernel=${VM_KERNEL:-$(compgen -G '/boot/vmlinuz-*-amd64' | sort -V | tail -n 1 || :)}
[ -r "$kernel" ] || missing "kernel image in /boot" linux-image-amd64
release=${kernel##*/vmlinuz-}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM INT
image=$work/image
mkdir -p "$image"/{bin,modules,dev,proc,sys,host}
cp "$busybox" "$image/bin/busybox"

# The modules that the guest loads, each after those that it needs. Modules built into the kernel have no file.
for module in virtio_pci virtio_console 9pnet_virtio 9p veth crc32_generic ib_uverbs rdma_rxe; do
  modprobe --set-version "$release" --show-depends "$module" 2>/dev/null || missing "module $module of $release" linux-image-amd64
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' > "$work/modules"
grep -q rdma_rxe "$work/modules" || missing "module rdma_rxe of $release" linux-image-amd64
number=100
while read -r file; do
  case $file in
    *.xz) xz -dc "$file" > "$image/modules/$number.ko" ;;
    *.zst) zstd -qdc "$file" > "$image/modules/$number.ko" ;;
    *) cp "$file" "$image/modules/$number.ko" ;;
  esac
  number=$((number + 1))
done < "$work/modules"

{ printf 'cd %q 2>/dev/null || cd /\n' "$PWD"; printf 'exec'; printf ' %q' "$@"; echo; } > "$image/command"
printf '%s' "$PWD" > "$image/here"

# The guest's first process, in busybox only. Port 1 carries the output, port 2 the status.
cat > "$image/init" <<'INIT'
#!/bin/busybox sh
alias b=/bin/busybox
b mount -t devtmpfs none /dev
b mount -t proc none /proc
b mount -t sysfs none /sys
for file in /modules/*; do b insmod $file || echo "insmod $file failed"; done
b mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /host || echo "no files of the host"
b mount -t proc none /host/proc
b mount -t sysfs none /host/sys
b mount -o bind /dev /host/dev
b mkdir -p /dev/shm /dev/pts
b mount -t tmpfs none /dev/shm
b mount -t devpts none /dev/pts
here=/host$(b cat /here)
b mkdir /here-before
b mount -o bind "$here" /here-before
b mount -t tmpfs none /host/tmp
[ -d "$here" ] || { b mkdir -p "$here" && b mount -o bind /here-before "$here"; }
b mount -t tmpfs none /host/run
b cp /command /inside /host/run/
b chroot /host /bin/bash /run/inside >/dev/vport0p1 2>&1 </dev/null
b poweroff -f
INIT
cat > "$image/inside" <<'INSIDE'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
finish() { echo "$1" > /dev/vport0p2; exit; }
ulimit -l unlimited
ulimit -n 65536
hostname soft-roce
ip link set lo up
ip link add roce0 mtu 4200 type veth peer name roce1 mtu 4200 &&
  ip addr add 10.9.0.1/24 dev roce0 && ip addr add 10.9.0.2/24 dev roce1 &&
  ip link set roce0 up && ip link set roce1 up &&
  rdma link add rxe0 type rxe netdev roce0 && rdma link add rxe1 type rxe netdev roce1 || finish none
# The addresses become GIDs shortly after.
for try in $(seq 200); do
  grep -qs 0a09:0001 /sys/class/infiniband/rxe0/ports/1/gids/* &&
    grep -qs 0a09:0002 /sys/class/infiniband/rxe1/ports/1/gids/* && break
  sleep .05
done
bash /run/command
finish $?
INSIDE
chmod +x "$image/init"
(cd "$image" && find . | cpio --quiet -o -H newc) > "$work/initrd"

accelerator=(-accel tcg,thread=multi -cpu max)
# KVM on hardware only: kvm_pvm, which clouds offer inside their own guests, does not run an unmodified kernel.
if [ -r /dev/kvm ] && [ -w /dev/kvm ] && compgen -G '/sys/module/kvm_[ia]*' >/dev/null; then accelerator=(-accel kvm -cpu host); fi
# no_timer_check: at its start the kernel checks that ten timer ticks arrive in time and panics if not. They may be late
# if the guest's CPU has not run. QEMU treats the end of its standard input as a closed port, so it gets an input
# without end.
mkfifo "$work/input"
exec 3<>"$work/input"
status=0
timeout --foreground -k 5 "${VM_SECONDS:-180}" qemu-system-x86_64 "${accelerator[@]}" -m "${VM_MEMORY:-2048}" -smp "${VM_CPUS:-2}" \
  -nodefaults -no-user-config -no-reboot -display none -kernel "$kernel" -initrd "$work/initrd" \
  -append 'console=ttyS0 panic=-1 quiet no_timer_check' -serial "file:$work/console" \
  -device virtio-serial-pci -chardev stdio,id=out,signal=off -device virtserialport,chardev=out,nr=1 \
  -chardev "file,id=status,path=$work/status" -device virtserialport,chardev=status,nr=2 \
  -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
  <&3 2> "$work/errors" || status=$?
result=$(cat "$work/status" 2>/dev/null || :)
case $result in
  '' | *[!0-9]*)
    [ "$status" != 124 ] || { echo "$me: not done in ${VM_SECONDS:-180} s" >&2; exit 124; }
    echo "$me: the guest ended before the command did (qemu's status $status)" >&2
    tail -n 20 "$work/console" "$work/errors" >&2 || :
    exit 125 ;;
esac
exit "$result"

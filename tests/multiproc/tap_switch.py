"""Network namespaces behind a switch in user space, whose links can be cut one way: tap_switch.py PREFIX COUNT

Host i is the namespace PREFIX-i with the address 10.79.0.(i+1) on eth0, a TAP device that this process reads. It takes
commands on standard input and answers each with a line: "cut A-B A-B..." drops all frames from A to B and removes
earlier cuts. "ports=FIRST-LAST" among the pairs drops TCP segments to these ports, and "above=BYTES" drops larger IP
packets; both concern all links. The end of the input removes the namespaces. ARP entries are fixed, so a cut loses only
TCP segments.
"""
import fcntl
import os
import selectors
import socket
import struct
import subprocess
import sys

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
FRAMES_PER_TURN = 64


def mac(host):
    return f"02:00:00:00:00:{host:02x}"


def run(*command):
    subprocess.run(command, check=True)


def add_host(prefix, host, count):
    device, namespace = f"{prefix}t{host}", f"{prefix}-{host}"
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI))
    run("ip", "netns", "add", namespace)
    run("ip", "link", "set", device, "netns", namespace)
    inside = ("ip", "-n", namespace)
    run(*inside, "link", "set", device, "name", "eth0", "address", mac(host), "mtu", "9000", "txqueuelen", "1000")
    run(*inside, "addr", "add", f"10.79.0.{host + 1}/24", "dev", "eth0")
    run(*inside, "link", "set", "eth0", "up")
    run(*inside, "link", "set", "lo", "up")
    for other in range(count):
        if other != host:
            run(*inside, "neigh", "add", f"10.79.0.{other + 1}", "lladdr", mac(other), "dev", "eth0", "nud", "permanent")
    return tap


class Cuts:
    def __init__(self, words=()):
        settings = dict(word.split("=") for word in words if "=" in word)
        self.pairs = {tuple(int(end) for end in word.split("-")) for word in words if "=" not in word}
        first, last = settings.get("ports", "0--1").split("-", 1)
        self.ports = range(int(first), int(last) + 1)
        self.most = int(settings.get("above", 65535))

    def drops(self, sender, receiver, frame):
        if (sender, receiver) in self.pairs or len(frame) - 14 > self.most:
            return True
        is_tcp = frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_TCP
        ports = 14 + 4 * (frame[14] & 15)
        return is_tcp and int.from_bytes(frame[ports + 2:ports + 4], "big") in self.ports


def forward(taps, sender, cuts):
    for _ in range(FRAMES_PER_TURN):
        try:
            frame = os.read(taps[sender], 16384)
        except BlockingIOError:
            return
        receiver = frame[5]  # the last byte of the receiver's MAC
        if frame[0] != 2 or receiver >= len(taps) or cuts.drops(sender, receiver, frame):
            continue
        try:
            os.write(taps[receiver], frame)
        except OSError:
            pass  # full: the frame is lost, as on any switch


def serve(taps):
    cuts = Cuts()
    watch = selectors.DefaultSelector()
    for host, tap in enumerate(taps):
        watch.register(tap, selectors.EVENT_READ, host)
    watch.register(sys.stdin, selectors.EVENT_READ, None)
    while True:
        for key, _ in watch.select():
            if key.data is not None:
                forward(taps, key.data, cuts)
                continue
            words = sys.stdin.readline().split()
            if not words:
                return
            cuts = Cuts(words[1:])
            print("done", flush=True)


def main():
    prefix, count = sys.argv[1], int(sys.argv[2])
    taps = []
    try:
        for host in range(count):
            taps.append(add_host(prefix, host, count))
        print("up", flush=True)
        serve(taps)
    finally:
        for host in range(count):
            subprocess.run(["ip", "netns", "del", f"{prefix}-{host}"], stderr=subprocess.DEVNULL, check=False)


main()

"""Links with latency. Each link has two TAP devices, and one process passes the frames on, see perf/delay_line."""
import fcntl
import os
import resource
import struct
import subprocess

from cluster.namespace import CommandFailed, NotSupported, in_namespace
from cluster.processes import cpu_seconds, die_with_parent

DEVICE = "/dev/net/tun"
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6, TUN_F_TSO_ECN = 1, 2, 4, 8
QUEUE_FRAMES = 10000  # of a TAP device; only the shapers may drop
END_SECONDS = 10


def program(build):
    return os.path.join(build, "perf", "delay-line")


def open_tap(name, device):
    """Makes a TAP device in a namespace. It exists until its descriptor is closed."""
    with in_namespace(name):
        tap = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    # The kernel passes large segments whole and leaves out their checksums, as on a veth pair.
    fcntl.ioctl(tap, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN)
    return tap


class DelayLine:
    def __init__(self, build, tag, round_trip):
        """`round_trip`: in seconds."""
        self.program = program(build)
        self.tag = tag
        self.round_trip = round_trip
        self.taps = []
        self.process = None
        try:
            os.close(os.open(DEVICE, os.O_RDWR))
        except OSError as error:
            raise NotSupported(f"--rtt needs {DEVICE}: {error.strerror}") from None
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    def add(self, host, port):
        """A link between two (namespace, device)."""
        for end in (host, port):
            self.taps.append(open_tap(*end))

    def start(self):
        words = [f"{self.tag}-delay-line", str(round(self.round_trip / 2 * 1e9)), *map(str, self.taps)]
        self.process = subprocess.Popen(words, executable=self.program, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        pass_fds=self.taps, start_new_session=True, preexec_fn=die_with_parent,
                                        bufsize=0)
        self.close_taps()

    def close_taps(self):
        while self.taps:
            os.close(self.taps.pop())

    def drops(self):
        try:
            self.process.stdin.write(b"\n")
            return int(self.process.stdout.readline())
        except (OSError, ValueError):
            raise CommandFailed(f"{self.program} has ended with status {self.process.wait()}") from None

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def end(self):
        self.close_taps()
        if self.process is not None:
            self.process.stdin.close()
            try:
                self.process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

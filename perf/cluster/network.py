"""The emulated network: hosts are namespaces on one bridge, and every link is shaped at both ends."""
import contextlib
import fcntl
import json
import os

from cluster import delay_line as lines
from cluster.namespace import RUN, CommandFailed, NotSupported, command, in_namespace

MTU = 1500
QUEUE_SECONDS = 0.02
LEAST_QUEUE = 262144  # bytes: a few large segments
HEADERS = 14 + 20 + 32  # Ethernet, IPv4, TCP with time stamps
GOODPUT = (MTU - 52) / (MTU + 14)  # fraction of the line rate that is TCP payload
TCP_SYSCTL = "/proc/sys/net/ipv4/tcp_"


def read(path):
    with open(path) as file:
        return file.read().strip()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def congestion_controls():
    return read(TCP_SYSCTL + "available_congestion_control").split()


class Network:
    ranks_per_host = None  # None: one for every link

    def __init__(self, tag, links, burst=None, congestion=None, queue_seconds=QUEUE_SECONDS, delay_line=None):
        self.tag = tag
        self.links = links  # for each host, the bit/s of each of its links
        self.rates = [sum(rates) for rates in links]
        self.burst = burst
        self.shaper = "htb"
        self.congestion = congestion
        self.queue_seconds = queue_seconds
        self.delay_line = delay_line  # None: the links are veth pairs, without latency
        self.bridge = f"{tag}-br"

    def root(self):
        """The address of the machine of rank 0."""
        return self.address(0)

    def settings(self, _):
        """Environment variables of the processes of a host."""
        return {}

    def host(self, index):
        return f"{self.tag}-h{index}"

    def address(self, index, link=0):
        return f"10.77.{index // 200 + 16 * link}.{index % 200 + 1}"

    def others(self, index):
        """All links of all other hosts."""
        return [(host, link) for host, rates in enumerate(self.links) if host != index for link in range(len(rates))]

    def up(self):
        try:
            self.build()
        except (CommandFailed, OSError) as error:
            raise NotSupported(f"network namespaces cannot be made here: {error}") from None

    def down(self):
        if self.delay_line is not None:
            self.delay_line.end()

    def build(self):
        command("ip", "netns", "add", self.bridge)
        self.disable_noise(self.bridge)
        self.ip(self.bridge, ["link set lo up", "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                              f"link set br0 mtu {MTU} up"])
        for index, rates in enumerate(self.links):
            command("ip", "netns", "add", self.host(index))
            self.disable_noise(self.host(index))
            self.ip(self.host(index), ["link set lo up"])
            for link, rate in enumerate(rates):
                self.add(index, link, rate)
        if self.delay_line is not None:
            self.delay_line.start()
        self.choose_congestion()

    def add(self, index, link, rate):
        host, port, device = self.host(index), f"p{index}-{link}", f"eth{link}"
        if self.delay_line is None:
            self.ip(self.bridge, [f"link add {port} mtu {MTU} type veth peer name {device} mtu {MTU} address "
                                  f"{mac(index, link)} netns {host}"])
        else:
            self.delay_line.add((host, device), (self.bridge, port))
            common = f"mtu {MTU} txqueuelen {lines.QUEUE_FRAMES}"
            self.ip(host, [f"link set {device} address {mac(index, link)} {common}"])
            self.ip(self.bridge, [f"link set {port} {common}"])
        self.ip(self.bridge, [f"link set {port} master br0 up"])
        # With permanent neighbour entries, the first message does not wait for ARP.
        others = [f"neigh add {self.address(*end)} lladdr {mac(*end)} dev {device} nud permanent"
                  for end in self.others(index)]
        self.ip(host, [f"link set {device} up"] + self.routes(index, link) + others)
        self.shape(host, device, rate)
        self.shape(self.bridge, port, rate)

    def routes(self, index, link):
        """All links are in one network, as in clouds: packets from a link's address leave through that link."""
        address, device = self.address(index, link), f"eth{link}"
        if link == 0:
            return [f"addr add {address}/16 dev {device}"]
        return [f"addr add {address}/32 dev {device}", f"route add 10.77.0.0/16 dev {device} table {100 + link}",
                f"rule add from {address} lookup {100 + link}"]

    def disable_noise(self, name):
        """Disables IPv6, whose own messages would be counted, and the bridge's firewall, which only costs CPU time."""
        for path in ("ipv6/conf/all/disable_ipv6", "ipv6/conf/default/disable_ipv6"):
            self.set(name, path, "1")
        self.set(name, "bridge/bridge-nf-call-iptables", "0")

    def set(self, name, path, value):
        """Sets a sysctl of this namespace, if the kernel has it."""
        with in_namespace(name), contextlib.suppress(OSError):
            write("/proc/sys/net/" + path, value)

    def ip(self, name, lines):
        command("ip", "-n", name, "-batch", "-", text="\n".join(lines) + "\n")

    def shape(self, name, device, rate):
        if self.shaper == "htb":
            try:
                return self.shape_htb(name, device, rate)
            except CommandFailed:
                self.shaper = "tbf"  # the kernel has no htb; if tbf is missing too, shaping fails
        # A smaller bucket makes tbf cut large segments into single frames, at a third of the rate.
        burst = self.burst or max(131072, rate // 8 // 500)
        command("tc", "-n", name, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}bit", "burst",
                str(burst), "latency", f"{self.queue_seconds * 1000:g}ms")
        return None

    def shape_htb(self, name, device, rate):
        burst = self.burst or 16000
        limit = self.queue_bytes(rate)
        command("tc", "-n", name, "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", "default", "1")
        command("tc", "-n", name, "-batch", "-", text=(
            f"class add dev {device} parent 1: classid 1:1 htb rate {rate}bit ceil {rate}bit burst {burst} "
            f"cburst {burst} quantum 65536\n"
            f"qdisc add dev {device} parent 1:1 handle 10: bfifo limit {limit}\n"))

    def change_rate(self, index, rate, link=0):
        """Gives a link of a host another rate while packets flow."""
        burst = self.burst or 16000
        for name, device in ((self.host(index), f"eth{link}"), (self.bridge, f"p{index}-{link}")):
            command("tc", "-n", name, "class", "change", "dev", device, "parent", "1:", "classid", "1:1", "htb", "rate",
                    f"{rate}bit", "ceil", f"{rate}bit", "burst", str(burst), "cburst", str(burst), "quantum", "65536")

    def queue_bytes(self, rate):
        return max(LEAST_QUEUE, round(rate / 8 * self.queue_seconds))

    def choose_congestion(self):
        """A namespace may choose only a congestion control that the machine allows, so this allows it for a moment."""
        wanted = self.congestion or "cubic"
        if wanted not in congestion_controls():
            self.congestion = read(TCP_SYSCTL + "congestion_control")
            return
        self.congestion = wanted
        with exclusive_lock():
            self.set_congestion(wanted)

    def set_congestion(self, wanted):
        before = read(TCP_SYSCTL + "allowed_congestion_control")
        try:
            if wanted not in before.split():
                write(TCP_SYSCTL + "allowed_congestion_control", f"{before} {wanted}")
            for index in range(len(self.links)):
                with in_namespace(self.host(index)):
                    write(TCP_SYSCTL + "congestion_control", wanted)
        finally:
            if wanted not in before.split():
                write(TCP_SYSCTL + "allowed_congestion_control", before)

    def counters(self, hosts):
        """Counts for each link of the first hosts and direction: bytes, the interface's packets, TCP payload.

        An interface counts a large segment as one packet with one header, so the payload is the rest."""
        out = []
        for index, rates in enumerate(self.links[:hosts]):
            for link in range(len(rates)):
                shown = command("ip", "-n", self.host(index), "-s", "-j", "link", "show", f"eth{link}")
                stats = json.loads(shown)[0]["stats64"]
                out.append({way: {"bytes": stats[way]["bytes"], "packets": stats[way]["packets"],
                                  "payload": stats[way]["bytes"] - HEADERS * stats[way]["packets"]}
                            for way in ("tx", "rx")})
        return out

    def added_round_trip(self):
        """The emulated latency, in seconds."""
        return self.delay_line.round_trip if self.delay_line is not None else 0

    def cpu_seconds(self):
        """CPU time of the process that delays packets."""
        return self.delay_line.cpu_seconds() if self.delay_line is not None else 0

    def drops(self):
        """Packets that the shapers and the delay line dropped, on both ends of all links."""
        total = self.delay_line.drops() if self.delay_line is not None else 0
        for name in [self.bridge] + [self.host(i) for i in range(len(self.links))]:
            for qdisc in json.loads(command("tc", "-n", name, "-s", "-j", "qdisc", "show")):
                total += qdisc.get("drops", 0) if qdisc.get("root") else 0
            if self.delay_line is not None:
                shown = json.loads(command("ip", "-n", name, "-s", "-j", "link", "show"))
                total += sum(link["stats64"]["tx"]["dropped"] for link in shown)
        return total


@contextlib.contextmanager
def exclusive_lock():
    """Locks the list of congestion controls, so that a concurrent run does not revert this run's change."""
    folder = os.open(RUN, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def mac(index, link=0):
    return f"02:00:0a:4d:{index // 200 + 16 * link:02x}:{index % 200 + 1:02x}"

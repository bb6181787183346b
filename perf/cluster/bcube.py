"""An emulated BCube(n, k): every host has k NICs, and a switch of level i joins the hosts that differ in digit i."""
import contextlib
import errno
import os
import select
import socket

from cluster.namespace import command, in_namespace
from cluster.network import MTU, Network, mac, read
from cluster.processes import Failure

RELAY_PORT = 7610
CONTROL = "ctl0"  # the interface of the control network
QUIET_SECONDS = 0.2  # without another datagram; then none is on its way any more
NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH)


class BcubeNetwork(Network):
    ranks_per_host = 1

    def __init__(self, tag, shape, rate, options, folder):
        self.n, self.k = shape
        super().__init__(tag, [[rate] * self.k for _ in range(self.n ** self.k)], options.burst, options.congestion,
                         options.queue)
        self.with_control_network = options.control_network
        self.addresses = os.path.join(folder, "addresses") if options.address_file or options.control_network else None

    def digit(self, index, level):
        return index // self.n ** level % self.n

    def digits(self, index):
        return ("." if self.n > 10 else "").join(str(self.digit(index, level)) for level in range(self.k))

    def switch(self, index, level):
        """The number of the host's switch among those of the level."""
        low = self.n ** level
        return index // (low * self.n) * low + index % low

    def address(self, index, link=0):
        switch = self.switch(index, link)
        return f"10.{80 + 16 * link + switch // 200}.{switch % 200}.{self.digit(index, link) + 1}"

    def control_address(self, index):
        return f"10.77.{index // 200}.{index % 200 + 1}"

    def neighbours(self, index, level):
        own = self.digit(index, level)
        return [index + (digit - own) * self.n ** level for digit in range(self.n) if digit != own]

    def others(self, index):
        return [(host, level) for level in range(self.k) for host in self.neighbours(index, level)]

    def switch_name(self, index, level):
        return f"br{level}-{self.switch(index, level)}"

    def up(self):
        super().up()
        self.check_reach()

    def build(self):
        command("ip", "netns", "add", self.bridge)
        self.disable_noise(self.bridge)
        names = {self.switch_name(index, level) for index in range(len(self.links)) for level in range(self.k)}
        if self.with_control_network:
            names.add("br0")
        self.ip(self.bridge, ["link set lo up"])
        for name in sorted(names):
            self.ip(self.bridge, [f"link add {name} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                                  f"link set {name} mtu {MTU} up"])
        for index, rates in enumerate(self.links):
            command("ip", "netns", "add", self.host(index))
            self.disable_noise(self.host(index))
            self.set(self.host(index), "ipv4/ip_forward", "0")
            self.ip(self.host(index), ["link set lo up"])
            for level, rate in enumerate(rates):
                self.add(index, level, rate)
            if self.with_control_network:
                self.add_control(index)
        self.choose_congestion()
        if self.addresses:
            self.write_addresses()

    def add(self, index, link, rate):
        host, port, device = self.host(index), f"p{index}-{link}", f"eth{link}"
        self.ip(self.bridge, [f"link add {port} mtu {MTU} type veth peer name {device} mtu {MTU} address "
                              f"{mac(index, link)} netns {host}",
                              f"link set {port} master {self.switch_name(index, link)} up"])
        self.ip(host, [f"addr add {self.address(index, link)}/24 dev {device}"])
        self.attach(index, link)
        self.shape(host, device, rate)
        self.shape(self.bridge, port, rate)

    def attach(self, index, link):
        """Sets the NIC up, at first or after it was down. With permanent entries, no message waits for ARP."""
        device = f"eth{link}"
        neighbours = [f"neigh replace {self.address(other, link)} lladdr {mac(other, link)} dev {device} nud permanent"
                      for other in self.neighbours(index, link)]
        self.ip(self.host(index), [f"link set {device} up"] + neighbours)

    def add_control(self, index):
        self.ip(self.bridge, [f"link add c{index} type veth peer name {CONTROL} netns {self.host(index)}",
                              f"link set c{index} master br0 up"])
        self.ip(self.host(index), [f"link set {CONTROL} up",
                                   f"addr add {self.control_address(index)}/16 dev {CONTROL}"])

    def write_addresses(self):
        with open(self.addresses, "w", encoding="utf-8") as file:
            for index in range(len(self.links)):
                ips = " ".join(self.address(index, level) for level in range(self.k))
                file.write(f"{self.digits(index)} {ips}\n")

    def check_reach(self):
        """Raises a Failure unless datagrams reach all neighbours and nobody else, with or without routes."""
        hosts = range(len(self.links))
        with contextlib.ExitStack() as sockets:
            own = {}
            for host in hosts:
                with in_namespace(self.host(host)):
                    if read("/proc/sys/net/ipv4/ip_forward") != "0":
                        raise Failure(f"machine {self.digits(host)} forwards packets")
                    for level in range(self.k):
                        receiver = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                        receiver.bind((self.address(host, level), 0))
                        own[host, level] = receiver
            for host in hosts:
                with in_namespace(self.host(host)):
                    self.send_to_all(host, {end: each.getsockname() for end, each in own.items()})
            got = self.receive_all(own)
        expected = {(host, (other, level)) for host in hosts for other, level in self.others(host)}
        for host, (other, level) in sorted(got ^ expected):
            what = "does not reach" if (host, (other, level)) in expected else "reaches"
            raise Failure(f"machine {self.digits(host)} {what} the NIC of machine {self.digits(other)}, level {level}")

    def send_to_all(self, host, addresses):
        """Sends a datagram to each NIC of each other machine by the routes, and one through each NIC without routes."""
        neighbours = {other for other, _ in self.others(host)}
        for (other, level), address in addresses.items():
            devices = [None] + [f"eth{way}" for way in range(self.k)] * (other not in neighbours)
            for device in devices if other != host else []:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                    if device:
                        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
                    try:
                        sender.sendto(b"%d" % host, address)
                    except OSError as error:
                        if error.errno not in NO_ROUTE:
                            raise

    def receive_all(self, sockets):
        """The pairs of a sender and of the NIC that received its datagram."""
        ends = {each.fileno(): end for end, each in sockets.items()}
        got = set()
        while ready := select.select(list(sockets.values()), [], [], QUIET_SECONDS)[0]:
            for each in ready:
                got.add((int(each.recv(16)), ends[each.fileno()]))
        return got

    def root(self):
        return self.control_address(0) if self.with_control_network else self.address(0)

    def settings(self, _):
        fabric = f"bcube:n={self.n},k={self.k}"
        if self.addresses:
            fabric += f",addresses={self.addresses}"
        if not self.with_control_network:
            fabric += f",relay={RELAY_PORT}"
        interfaces = [CONTROL] * self.with_control_network + [f"eth{level}" for level in range(self.k)]
        return {"BPS_FABRIC": fabric, "BPS_SOCKET_IFNAME": ",".join(interfaces)}


class BcubePlan:
    """For one all-reduce: the time at the measured goodput, and the bytes of each NIC each way."""

    def __init__(self, shape, size, rate):
        machines = shape[0] ** shape[1]
        each = 2 * (machines - 1) / (shape[1] * machines) * size
        self.seconds = self.seconds_without = each / rate
        self.traffic = [each] * (machines * shape[1])
        self.shares = {"workers": [1 / machines] * machines, "servers": []}


def report_links(note, network, row, plan):
    """Prints how the payload of the links differs from the plan and from each other."""
    links = [(each[way]["payload"] / row["traffic_calls"],
              f"machine {network.digits(index // network.k)}, level {index % network.k}, {verb}")
             for index, each in enumerate(row["nics"]) for way, verb in (("tx", "sent"), ("rx", "received"))]
    mean = sum(value for value, _ in links) / len(links)
    value, name = max(links, key=lambda link: abs(link[0] - mean))
    planned = plan.traffic[0]
    row["link_bytes"] = {"planned": planned, "mean": mean, "greatest_deviation_percent": 100 * (value - mean) / mean}
    note(f"each link and direction, bytes of a call: planned {planned:.0f}, carried {mean:.0f} on average, of which "
         f"{100 * (mean - planned) / mean:.2f} % headers and control; furthest from the average: {name} {value:.0f} "
         f"({100 * (value - mean) / mean:+.3f} %)")

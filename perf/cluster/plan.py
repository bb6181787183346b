"""The expected times and bytes, from bps-topo's solver with the rates of this network."""
import json
import os

from cluster.namespace import command


def solve(options, servers, size, rates):
    """bps-topo's answer for all workers and the first servers of `rates` (any unit; seconds are for bytes/s)."""
    n = options.workers
    gbps = [f"{rate * 8e-9:.9g}" for rate in rates]
    words = [os.path.join(options.build, "bin", "bps-topo"), "plan", "--json", "--bytes", str(size), "--workers",
             str(n), "--worker-gbps", ",".join(gbps[:n]), "--servers", str(servers)]
    if servers > 0:
        words += ["--server-gbps", ",".join(gbps[n:n + servers])]
    return json.loads(command(*words))


class Plan:
    """For one all-reduce: the time at the measured goodput, and the bytes of each NIC each way at the given rates.

    The NICs of one host share its bytes by their rates."""

    def __init__(self, options, servers, size, network, goodputs):
        measured = solve(options, servers, size, [sum(goodputs[rate] for rate in rates) for rates in network.links])
        self.seconds = measured["seconds"]
        self.seconds_without = measured["seconds_without_servers"]
        told = solve(options, servers, size, [rate / 8 for rate in network.rates])
        hosts = told["traffic_bytes"]["workers"] + told["traffic_bytes"]["servers"]
        self.traffic = [value * rate / sum(rates) for value, rates in zip(hosts, network.links) for rate in rates]
        self.shares = told["shares"]

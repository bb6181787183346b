"""Runs bps-perf on an emulated BCube. Usage: bcube.py BUILD RESULTS|FAULTS. Exit status 77: skipped."""
import argparse
import contextlib
import os
import re
import signal
import socket
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "perf"))

from cluster import job, session  # noqa: E402
from cluster.bcube import CONTROL, BcubeNetwork  # noqa: E402
from cluster.namespace import command, in_namespace  # noqa: E402
from cluster.network import read  # noqa: E402
from cluster.processes import Failure, Processes, wait  # noqa: E402

TIMEOUT = 8  # BPS_TIMEOUT, seconds
RATE = 2000_000_000


class Test:
    def __init__(self, options, tag, folder):
        self.options = options
        self.tag = tag
        self.processes = Processes(folder)
        self.failed = False
        self.network = None
        self.shapes = 0

    def write_results(self):
        pass

    def build(self, shape, **more):
        """Makes the network of a shape, in place of the one before."""
        given = {"burst": None, "congestion": None, "queue": 0.02, "control_network": False, "address_file": False}
        self.shapes += 1
        self.network = BcubeNetwork(f"{self.tag}{self.shapes}", shape, RATE, argparse.Namespace(**{**given, **more}),
                                    self.processes.folder)
        self.network.up()

    def start(self, words, env=None, leave_out=(), ranks_per_machine=1):
        """Starts a program as all ranks. `env` is a dict, or gives one for a machine."""
        key = os.path.join(self.processes.folder, "key")
        job.write_key(key)
        machines = len(self.network.links)
        ranks = []
        for rank in range(machines * ranks_per_machine):
            machine = rank // ranks_per_machine
            settings = {**os.environ, "NCCL_SHM_DISABLE": "1", "BPS_KEY_FILE": key, "BPS_TIMEOUT": str(TIMEOUT),
                        "BPS_ROOT": f"{self.network.root()}:7600", "BPS_RANK": str(rank),
                        "BPS_NRANKS": str(machines * ranks_per_machine), "BPS_HOSTID": f"machine{machine}",
                        **self.network.settings(machine), **(env(machine) if callable(env) else env or {})}
            if machine not in leave_out:
                ranks.append(self.processes.start(f"rank{rank}", self.network.host(machine), words, settings))
        return ranks

    def perf(self, *arguments):
        return [os.path.join(self.options.build, "bin", "bps-perf"), *arguments]

    def succeed(self, ranks, what, limit=60):
        if not wait(ranks, limit):
            raise Failure(f"{what}: not done after {limit} s", "".join(rank.output_tail(3) for rank in ranks))
        for rank in ranks:
            if rank.status() != 0:
                raise Failure(f"{what}: {rank.name} ended with {rank.status()}", rank.output_tail())
        out = read(ranks[0].out)
        self.processes.end()
        return out

    def fail(self, ranks, what, pattern, limit, gone=()):
        """All ranks but those of `gone` end with an error that matches the pattern, within the limit."""
        begin = time.monotonic()
        left = [rank for rank in ranks if rank not in gone]
        if not wait(left, limit):
            raise Failure(f"{what}: not over after {limit} s", "".join(rank.output_tail(3) for rank in left))
        seconds = time.monotonic() - begin
        for rank in left:
            text = read(rank.err) + read(rank.out)
            if rank.status() == 0 or not re.search(pattern, text):
                raise Failure(f"{what}: {rank.name} ended with {rank.status()}, and no line has \"{pattern}\"", text[-2000:])
        self.processes.end()
        print(f"{what}: {len(left)} ranks name it after {seconds:.1f} s: "
              f"{next(line for line in (read(left[-1].err) + read(left[-1].out)).splitlines() if re.search(pattern, line))[-240:]}",
              flush=True)


class Results(Test):
    def run(self):
        for shape, more in (((2, 2), {}), ((3, 2), {"address_file": True}), ((2, 3), {"control_network": True})):
            self.build(shape, **more)
            self.check_reach()
            text = self.succeed(self.start(self.perf("-b", "4", "-e", "1M", "-f", "512", "-d", "all", "-o", "all", "-n", "1",
                                                     "-w", "0", "-c", "1")), f"BCube{shape}, all types and operations", 120)
            if not re.search(r"Out of bounds values : 0 OK", text):
                raise Failure(f"BCube{shape}: wrong values", text)
            print(f"BCube{shape}: all types and operations are right", flush=True)
        self.build((2, 2))
        self.check_bits()
        self.succeed(self.start(self.perf("-b", "8", "-e", "256K", "-f", "8", "-n", "2", "-c", "1"), ranks_per_machine=2),
                     "two ranks per machine")
        cube = lambda machine: {"BPS_FABRIC": self.network.settings(machine)["BPS_FABRIC"].replace("bcube:n=2,", "hypercube:")}
        self.succeed(self.start(self.perf("-b", "8", "-e", "64K", "-f", "8", "-n", "2", "-c", "1"), cube), "hypercube")

    def check_reach(self):
        """A machine reaches only its neighbours."""
        network = self.network
        with in_namespace(network.host(len(network.links) - 1)):
            listeners = [socket.create_server((network.address(len(network.links) - 1, level), 0)) for level in range(network.k)]
        last = len(network.links) - 1
        for machine in range(last):
            level = next((level for level in range(network.k) if machine in network.neighbours(last, level)), None)
            for listener in listeners:
                with in_namespace(network.host(machine)), socket.socket() as end:
                    end.settimeout(2)
                    reached = end.connect_ex(listener.getsockname()) == 0
                expected = level is not None and listener is listeners[level]
                if reached != expected:
                    raise Failure(f"machine {machine} reaches {listener.getsockname()}: {reached}, expected {expected}")
        for listener in listeners:
            listener.close()

    def check_bits(self):
        """The sums have the same bits in all runs, and for every size of chunks."""
        seen = set()
        for count in range(self.options.runs):
            size = ("4K", "64K", "1M", "4M")[count % 4]
            text = self.succeed(self.start(self.perf("--model", "lenet5", "-n", "1", "-w", "0"), {"BPS_PARTITION_BYTES": size}),
                                f"bits, chunks of {size}")
            seen |= set(re.findall("^# checksum (.*)", text, re.M))
        if len(seen) != 1:
            raise Failure(f"{self.options.runs} runs, different checksums: {seen}")
        print(f"same bits in {self.options.runs} runs", flush=True)


class Faults(Test):
    def run(self):
        self.build((2, 2))
        endless = self.perf("-b", "1M", "-e", "1M", "-n", "100000", "-w", "0")
        for machine in range(1, 4):
            ranks = self.start(endless)
            self.wait_until_running(ranks)
            ranks[machine].signal(signal.SIGKILL)
            self.fail(ranks, f"machine {machine} killed", rf"rank {machine} \(|rank {machine} at", TIMEOUT, [ranks[machine]])
        ranks = self.start(endless)
        self.wait_until_running(ranks)
        command("ip", "-n", self.network.host(3), "link", "set", "eth0", "down")
        self.fail(ranks, "NIC of machine 3 down", r"rank [23] \(.*", 2 * TIMEOUT)
        self.build((2, 2))
        self.fail(self.start(endless, leave_out=[3]), "machine 3 missing", "rank.* 3.*|did not|not come in time", 2 * TIMEOUT)
        self.fail(self.start(endless, {"BPS_SERVERS": "10.80.0.1:7700"}), "servers", "BPS_FABRIC: summation servers are not possible",
                  2 * TIMEOUT)
        mixed = lambda machine: {"BPS_FABRIC": "bcube:n=4,k=1,address=2,relay=7610"} if machine == 2 else {}
        self.fail(self.start(endless, mixed), "another fabric on machine 2", "BPS_FABRIC", 2 * TIMEOUT)
        self.swap_cables()
        self.wrong_files()

    def wait_until_running(self, ranks):
        """Until the first rank has moved some MiB."""
        until = time.monotonic() + 30
        begin = self.network.counters(1)[0]["tx"]["bytes"]
        while self.network.counters(1)[0]["tx"]["bytes"] - begin < 8 << 20:
            if time.monotonic() > until or wait([ranks[0]], 0.05):
                raise Failure("the job does not run", "".join(rank.output_tail(3) for rank in ranks))

    def swap_cables(self):
        """Machines 0 and 3 have their cables of level 0 in each other's switch."""
        for machine, other in ((0, 3), (3, 0)):
            command("ip", "-n", self.network.bridge, "link", "set", f"p{machine}-0", "master", self.network.switch_name(other, 0))
        self.fail(self.start(self.perf("-b", "1M", "-e", "1M")), "swapped cables",
                  r"are neighbours of level 0|cannot reach|did not|not come in time|no way", 3 * TIMEOUT)

    def wrong_files(self):
        self.build((2, 2), address_file=True)
        right = read(self.network.addresses)
        lines = right.splitlines()
        for what, text, pattern in (
                ("digit out of range", right.replace("11 ", "12 "), "addresses:4"),
                ("a line is missing", "\n".join(lines[:3]), "addresses"),
                ("an IP address twice", right.replace(lines[1].split()[1], lines[0].split()[1]), "addresses:2")):
            with open(self.network.addresses, "w", encoding="utf-8") as file:
                file.write(text)
            self.fail(self.start(self.perf("-b", "1M", "-e", "1M")), what, pattern, 2 * TIMEOUT)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("what", choices=["results", "faults"])
    parser.add_argument("--runs", type=int, default=8)
    options = parser.parse_args()
    make = Results if options.what == "results" else Faults
    return session.run("bcube.py", lambda tag, folder: make(options, tag, folder))


if __name__ == "__main__":
    sys.exit(main())

"""Runs programs on emulated BCubes. Usage: bcube.py BUILD results|faults|torch. Exit status 77: skipped."""
import argparse
import os
import re
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "perf"))

from cluster import job, session  # noqa: E402
from cluster.bcube import CONTROL, BcubeNetwork  # noqa: E402
from cluster.namespace import command  # noqa: E402
from cluster.network import read  # noqa: E402
from cluster.processes import Failure, Processes, wait  # noqa: E402

TIMEOUT = 8  # BPS_TIMEOUT, seconds
REPORT_SECONDS = 3  # to detect, decide and report (docs/ARCHITECTURE.md, "Failure")
START_SECONDS = 60  # for the starts of all ranks on busy CPUs
RATE = 2000_000_000
INTEGERS = ("int8", "uint8", "int32", "uint32", "int64", "uint64")


class Test:
    def __init__(self, options, tag, folder):
        self.options = options
        self.tag = tag
        self.processes = Processes(folder)
        self.failed = False
        self.network = None
        self.networks = 0
        self.key = os.path.join(folder, "key")
        job.write_key(self.key)

    def run(self):
        signal.signal(signal.SIGALRM, self.on_alarm)
        signal.alarm(self.options.limit)
        try:
            self.run_all()
        except Failure as failure:
            print(failure.details, end="", flush=True)
            raise
        finally:
            signal.alarm(0)

    def on_alarm(self, *_):
        raise Failure(f"not done after {self.options.limit} s")

    def write_results(self):
        pass

    def build(self, shape, **more):
        """Makes a network, in addition to those before."""
        given = {"burst": None, "congestion": None, "queue": 0.02, "control_network": False, "address_file": False}
        self.networks += 1
        self.network = BcubeNetwork(f"{self.tag}-{self.networks}", shape, RATE, argparse.Namespace(**{**given, **more}),
                                    self.processes.folder)
        self.network.up()

    def environment(self, **more):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("BPS_", "NCCL_"))}
        return {**clean, "NCCL_IB_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "BPS_KEY_FILE": self.key,
                "BPS_TIMEOUT": str(TIMEOUT), **more}

    def start(self, words, env=None, leave_out=(), ranks_per_machine=1, rank_name="BPS_RANK"):
        """Starts a program as all ranks. `env` is a dict, or gives one for a machine."""
        count = len(self.network.links) * ranks_per_machine
        ranks = []
        for rank in range(count):
            machine = rank // ranks_per_machine
            more = {"BPS_ROOT": f"{self.network.root()}:7600", rank_name: str(rank), "BPS_NRANKS": str(count),
                    "BPS_HOSTID": f"machine{machine}", **self.network.settings(machine),
                    **(env(machine) if callable(env) else env or {})}
            if machine not in leave_out:
                ranks.append(self.processes.start(f"rank{rank}", self.network.host(machine), words,
                                                  self.environment(**more)))
        return ranks

    def program(self, name, *arguments):
        return [os.path.join(self.options.build, "bin", name), *arguments]

    def perf(self, *arguments):
        return self.program("bps-perf", *arguments)

    def succeed(self, ranks, what, limit=60):
        """Waits for all ranks. Returns what the first one has printed."""
        wait(ranks, limit, until_failure=True)
        wait(ranks, 1)  # the others report too
        for rank in ranks:
            if rank.status() != 0:
                said = "".join(each.output_tail(3) for each in ranks)
                raise Failure(f"{what}: {rank.name} ended with {rank.status()} (None: not yet) of {limit} s", said)
        self.processes.end()
        return read(ranks[0].out)

    def right(self, ranks, what, limit=60):
        """The ranks of bps-perf end and have found no wrong value."""
        text = self.succeed(ranks, what, limit)
        if not re.search("^# Out of bounds values : 0 OK", text, re.M):
            raise Failure(f"{what}: wrong values", text[-2000:])
        print(f"{what}: {len(re.findall('^ +[0-9]+ +[0-9]+ ', text, re.M))} rows, all values right", flush=True)

    def fail(self, ranks, what, pattern, limit, gone=()):
        """All ranks but those of `gone` print a line that matches the pattern within the limit, and end with an error.

        A process may serve as a relay for BPS_TIMEOUT more before it ends."""
        begin = time.monotonic()
        left = [rank for rank in ranks if rank not in gone]
        while not all(matching(rank, pattern) for rank in left):
            if time.monotonic() > begin + limit or wait(left, 0.1):
                break
        seconds = time.monotonic() - begin
        ended = wait(left, TIMEOUT + REPORT_SECONDS)
        said = "".join(rank.output_tail(3) for rank in left)
        for rank in left:
            if matching(rank, pattern) is None:
                raise Failure(f"{what}: {rank.name} says nothing like \"{pattern}\" within {limit} s", said)
            if rank.status() == 0:
                raise Failure(f"{what}: {rank.name} ended with 0", said)
        if not ended:
            raise Failure(f"{what}: named after {seconds:.1f} s, but not over", said)
        self.processes.end()
        print(f"{what}: {len(left)} ranks name it after {seconds:.1f} s: {matching(left[-1], pattern)[:300]}",
              flush=True)


def matching(rank, pattern):
    """The first line of the rank that matches the pattern."""
    lines = (read(rank.err) + "\n" + read(rank.out)).splitlines()
    return next((line for line in lines if re.search(pattern, line)), None)


class Results(Test):
    def run_all(self):
        everything = ("-b", "4", "-e", "256K", "-f", "256", "-d", "all", "-o", "all", "-n", "1", "-w", "0", "-c", "1")
        some = ("-b", "8", "-e", "1M", "-f", "8", "-n", "2", "-w", "1", "-c", "1")
        self.build((3, 2), address_file=True)
        self.right(self.start(self.perf(*everything)), "BCube(3,2), address file", 120)
        self.build((2, 3), control_network=True)
        self.right(self.start(self.perf(*some, "-d", "half", "-o", "avg")), "BCube(2,3), control network")
        self.build((2, 2))
        self.right(self.start(self.perf(*everything)), "BCube(2,2), derived addresses", 120)
        self.right(self.start(self.perf(*some), ranks_per_machine=2), "two ranks per machine")
        self.right(self.start(self.perf("-b", "8", "-e", "4K", "-f", "8", "-m", "32", "-n", "2", "-c", "1")),
                   "groups of 32 small calls, which fuse")
        self.right(self.start(self.perf(*some), self.hypercube), "hypercube:k=2")
        self.check_integers()
        self.check_bits()
        self.check_nccl_names()

    def hypercube(self, machine):
        return {"BPS_FABRIC": self.network.settings(machine)["BPS_FABRIC"].replace("bcube:n=2,", "hypercube:")}

    def checksum(self, text):
        return re.search("^# checksum (.*)", text, re.M)[1]

    def check_integers(self):
        """The sums of integers are those of the ordinary path."""
        for kind in INTEGERS:
            words = self.perf("--model", "lenet5", "-d", kind, "-n", "1", "-w", "0")
            bcube = self.checksum(self.succeed(self.start(words), f"{kind} on the BCube"))
            launcher = self.processes.start("bps-run", None, self.program("bps-run", "-n", "4", "--", *words),
                                            self.environment(BPS_SOCKET_IFNAME="lo"))
            ordinary = self.checksum(self.succeed([launcher], f"{kind} without a fabric"))
            if bcube != ordinary:
                raise Failure(f"{kind}: checksum {bcube} on the BCube, {ordinary} without a fabric")
        print(f"{', '.join(INTEGERS)}: the sums without a fabric", flush=True)

    def check_bits(self):
        """The sums of floats have the same bits in all runs, and for every size of chunks."""
        for kind in ("float", "bfloat16"):
            seen = set()
            for count in range(self.options.runs):
                size = ("64K", "256K", "1M", "4M")[count % 4]
                words = self.perf("--model", "lenet5", "-d", kind, "-n", "1", "-w", "0")
                seen.add(self.checksum(self.succeed(self.start(words, {"BPS_PARTITION_BYTES": size}),
                                                    f"{kind}, chunks of {size}")))
            if len(seen) != 1:
                raise Failure(f"{kind}: {self.options.runs} runs with different checksums: {', '.join(seen)}")
            print(f"{kind}: the same bits in {self.options.runs} runs, chunks of 64 KiB to 4 MiB", flush=True)

    def check_nccl_names(self):
        """A program that uses the names of NCCL."""
        if not shutil.which("cc"):
            print("(a program with NCCL's names: skipped: no C compiler)")
            return
        root, libraries = os.path.join(HERE, "..", ".."), os.path.realpath(os.path.join(self.options.build, "lib"))
        program = os.path.join(self.processes.folder, "all_reduce_nccl")
        command("cc", f"-I{root}/include", f"{root}/examples/all_reduce_nccl.c", "-o", program, f"-L{libraries}",
                "-lbps", f"-Wl,-rpath,{libraries}")
        text = self.succeed(self.start([program]), "a program with NCCL's names")
        if text != "rank 0 of 4: sum 10":
            raise Failure(f"a program with NCCL's names: {text}")


class Faults(Test):
    endless = ("-b", "1M", "-e", "1M", "-n", "100000", "-w", "0")
    once = ("-b", "1M", "-e", "1M")

    def run_all(self):
        self.build((2, 3))
        for machine, what in ((7, "three hops from rank 0"), (1, "a neighbour of rank 0 that relays"),
                              (3, "two hops from rank 0")):
            ranks = self.start(self.perf(*self.endless))
            self.wait_until_running(ranks)
            ranks[machine].signal(signal.SIGKILL)
            self.fail(ranks, f"machine {self.network.digits(machine)} killed, {what}", rf"ended: .*rank {machine}\b",
                      TIMEOUT, [ranks[machine]])
        # Each machine is reached over another level, so all machines join.
        self.swap_cables(2, 7, 2, r"\([01]{3}\) and .*\([01]{3}\) are neighbours of level 2",
                         "all machines are reached")
        self.build((2, 2))
        for machine, level, survives in ((3, 0, False), (1, 1, True)):
            self.set_nic_down(machine, level, survives)
        self.refuse()
        self.leave_machines_out()
        self.swap_cables(0, 3, 0, "2 of 4 ranks missing: 1, 3|the neighbour of [01]{2} on level [01]",
                         "two machines are not reached")
        self.build((2, 2), control_network=True)
        self.swap_cables(0, 3, 0, r"\([01]{2}\) and .*\([01]{2}\) are neighbours of level 0", "control network")
        self.wrong_files()

    def wait_until_running(self, ranks):
        """Until the first rank has sent two MiB, so that all connections are in use."""
        until = time.monotonic() + START_SECONDS
        begin = self.network.counters(1)[0]["tx"]["bytes"]
        while self.network.counters(1)[0]["tx"]["bytes"] - begin < 2 << 20:
            if time.monotonic() > until or wait(ranks, 0.05, until_failure=True):
                raise Failure("the job does not run", "".join(rank.output_tail(3) for rank in ranks))

    def set_nic_down(self, machine, level, survives):
        """The NIC's machine names it, and so does rank 0 if the machine's control connection survives. The others may
        have lost their own, and then name a machine of a connection that the NIC carries."""
        network = self.network
        ranks = self.start(self.perf(*self.endless))
        self.wait_until_running(ranks)
        command("ip", "-n", network.host(machine), "link", "set", f"eth{level}", "down")
        others = "|".join(str(other) for other in network.neighbours(machine, level))
        named = rf"eth{level} of level {level} of machine {network.digits(machine)} is down"
        self.fail(ranks, f"NIC of level {level} of machine {network.digits(machine)} down",
                  rf"{named}|ended: .*rank ({machine}|{others})\b", TIMEOUT + REPORT_SECONDS)
        for rank in {machine, 0} if survives else {machine}:
            if matching(ranks[rank], named) is None:
                raise Failure(f"rank {rank} does not name the NIC", ranks[rank].output_tail(9))
        network.attach(machine, level)

    def refuse(self):
        """Settings that bps refuses, by name, on all ranks."""
        servers = {"BPS_SERVERS": f"{self.network.address(1)}:7700"}
        self.fail(self.start(self.perf(*self.once), servers), "servers", "BPS_SERVERS=.* servers are not possible",
                  TIMEOUT)
        line = {"BPS_FABRIC": "bcube:n=4,k=1,relay=7610", "BPS_SOCKET_IFNAME": "eth0"}
        other = lambda machine: line if machine == 3 else {}
        self.fail(self.start(self.perf(*self.once), other), "another fabric on machine 11",
                  "BPS_FABRIC=bcube:n=(4,k=1.*bcube:n=2,k=2|2,k=2.*bcube:n=4,k=1)",
                  TIMEOUT + START_SECONDS)
        swapped = lambda machine: {"BPS_SOCKET_IFNAME": "eth1,eth0"} if machine == 1 else {}
        self.fail(self.start(self.perf(*self.once), swapped), "machine 10 lists its interfaces in the other order",
                  "both have the address 01", TIMEOUT + START_SECONDS)

    def leave_machines_out(self):
        self.fail(self.start(self.perf(*self.once), leave_out=[3]), "machine 11 is not started",
                  r"1 of 4 ranks missing: 3\b", TIMEOUT + START_SECONDS)

    def swap_cables(self, one, other, level, pattern, what):
        """Two machines have their cables of a level in each other's switch."""
        network = self.network
        switches = {one: network.switch_name(other, level), other: network.switch_name(one, level)}
        for machine, switch in switches.items():
            command("ip", "-n", network.bridge, "link", "set", f"p{machine}-{level}", "master", switch)
        self.fail(self.start(self.perf(*self.once)), f"swapped cables, {what}", pattern, 2 * TIMEOUT + START_SECONDS)

    def wrong_files(self):
        self.build((2, 2), address_file=True)
        right = read(self.network.addresses)
        lines = right.splitlines()
        for what, text, pattern in (
                ("a digit out of range", right.replace("11 ", "12 "), "addresses:4: .*12"),
                ("a line is missing", "\n".join(lines[:3]),
                 "addresses: 3 machines, but .* has 4: machine 11 is missing"),
                ("an IP address twice", right.replace(lines[1].split()[1], lines[0].split()[1]),
                 "addresses:2: .* is also in line 1")):
            with open(self.network.addresses, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            self.fail(self.start(self.perf(*self.once)), what, pattern, TIMEOUT)


class Torch(Test):
    def run_all(self):
        """PyTorch trains; its own connections use the control network."""
        self.build((2, 2), control_network=True)
        example = os.path.join(HERE, "..", "..", "examples", "ddp.py")
        words = [os.environ.get("BPS_TORCH_PYTHON", sys.executable), example, "--backend", "bps"]
        ranks = self.start(words, {"GLOO_SOCKET_IFNAME": CONTROL, "MASTER_ADDR": self.network.root(),
                                   "MASTER_PORT": "7500", "WORLD_SIZE": "4"}, rank_name="RANK")
        text = self.succeed(ranks, "examples/ddp.py", 120)
        if not re.search("^parameters [0-9a-f]+ on all 4 ranks", text, re.M):
            raise Failure("examples/ddp.py", text[-2000:])
        print(text, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("what", choices=["results", "faults", "torch"])
    parser.add_argument("--runs", type=int, default=8, help="runs whose bits are compared")
    parser.add_argument("--limit", type=int, default=220, help="seconds")
    options = parser.parse_args()
    make = {"results": Results, "faults": Faults, "torch": Torch}[options.what]
    return session.run("bcube.py", lambda tag, folder: make(options, tag, folder))


if __name__ == "__main__":
    sys.exit(main())

"""Runs jobs on this machine and injects faults at random times. After each run, either all ranks have right values, or
all ranks have ended in time with an error that names a culprit. Nothing may be left behind.

campaign.py BUILD [--runs N] [--seed S] [--verbose]     run i has the seed S + i, which reproduces it
"""
import argparse
import collections
import glob
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TIMEOUT = 4  # BPS_TIMEOUT
SERVER_TIMEOUT = 1
HANG_SECONDS = 30  # without any progress. A run may take minutes, because other programs may use the CPUs too.
ERRORS = re.compile(r"rank \d+ \(|server 127\.")


# The faults and how often they occur.
FAULTS = {"kill server": 3, "kill and restart server": 5, "drain server": 2, "drain and restart server": 4,
          "stop server": 2, "stop and continue server": 2, "list change": 3, "kill rank": 1}


class Failed(Exception):
    pass


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class Job:
    """The processes of one run."""

    def __init__(self, build, folder, rng, plugin):
        self.build, self.folder, self.rng, self.plugin = build, folder, rng, plugin
        self.machines = rng.randint(2, 4)
        self.per_machine = rng.choice([1, 1, 1, 2])
        self.servers = rng.randint(1, 3)
        self.key = os.path.join(folder, "key")
        with open(os.open(self.key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32))
        self.rank_processes, self.server_processes, self.addresses = [], [], []
        self.ended_servers = []  # processes whose place another process has taken
        self.list_file = os.path.join(folder, "servers") if rng.random() < 0.4 else None

    def environment(self, spec="", **more):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("BPS_", "NCCL_"))}
        env.update(BPS_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1", BPS_TIMEOUT=str(TIMEOUT), BPS_KEY_FILE=self.key,
                   BPS_SERVER_TIMEOUT=str(SERVER_TIMEOUT), **more)
        if self.plugin:
            env.update(BPS_NET_PLUGIN=os.path.join(self.build, "tests", "libnccl-net-fault.so"),
                       FAULT_PLUGIN_SPEC=spec, FAULT_PLUGIN_SEED=str(self.rng.randrange(1 << 30)))
        return env

    def start(self, name, words, env):
        out = open(os.path.join(self.folder, name + ".out"), "wb")
        err = open(os.path.join(self.folder, name + ".err"), "wb")
        with out, err:
            return subprocess.Popen(words, stdout=out, stderr=err, env=env)

    def text(self, name):
        with open(os.path.join(self.folder, name), errors="replace") as file:
            return file.read()

    def start_server(self, name, address, spec=""):
        """Starts a server and returns it with its address."""
        process = self.start(name, [os.path.join(self.build, "bin", "bps-server"), "--listen", address],
                             self.environment(spec))
        until = time.monotonic() + 10
        while not (found := re.search(r"^listening on (\S+)", self.text(name + ".out"), re.M)):
            if time.monotonic() > until or process.poll() is not None:
                raise Failed(f"{name} does not listen")
            time.sleep(0.02)
        return process, found[1]

    def start_servers(self, specs):
        for j in range(self.servers):
            process, address = self.start_server(f"server{j}", "127.0.0.1:0", specs.get(j, ""))
            self.server_processes.append(process)
            self.addresses.append(address)

    def restart_server(self, j):
        """Starts a server again at its old address, once the old process has ended."""
        self.server_processes[j].wait()
        self.ended_servers.append(self.server_processes[j])
        self.server_processes[j], _ = self.start_server(f"server{j}-{len(self.ended_servers)}", self.addresses[j])

    def server_list(self):
        if self.list_file is None:
            return ",".join(self.addresses)
        self.write_list(self.addresses)
        return "@" + self.list_file

    def write_list(self, addresses):
        with open(self.list_file + ".new", "w") as file:
            file.writelines(address + "\n" for address in addresses)
        os.replace(self.list_file + ".new", self.list_file)

    def start_ranks(self, options, harmless):
        root = f"127.0.0.1:{free_port()}"
        ranks = self.machines * self.per_machine
        servers = self.server_list()
        for rank in range(ranks):
            env = self.environment(harmless, BPS_RANK=str(rank), BPS_NRANKS=str(ranks), BPS_ROOT=root,
                                   BPS_HOSTID=f"machine{rank // self.per_machine}", BPS_SERVERS=servers)
            if self.rng.random() < 0.3:
                env["NCCL_SHM_DISABLE"] = "1"
            self.rank_processes.append(self.start(
                f"rank{rank}", [os.path.join(self.build, "bin", "bps-perf"), *options], env))

    def end(self):
        for process in self.rank_processes + self.server_processes + self.ended_servers:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


def options(rng):
    least = rng.choice(["8", "1K", "100K", "1M"])
    most = {"8": "64K", "1K": "256K", "100K": "12800K", "1M": "32M"}[least]
    return ["-b", least, "-e", most, "-f", str(rng.choice([2, 4])), "-n", str(rng.randint(5, 30)), "-w", "1", "-c", "1",
            "-N", str(rng.randint(1, 3)), "-d", rng.choice(["float", "half", "bfloat16", "int32", "double", "uint8"]),
            "-o", rng.choice(["sum", "sum", "max", "avg"])]


def inject(job, rng, log):
    """Injects faults while the job runs. Returns the ranks that were killed."""
    killed = set()
    for _ in range(rng.randint(1, job.servers + 1)):
        time.sleep(rng.random() * 0.8)
        kind = rng.choices(list(FAULTS), list(FAULTS.values()))[0]
        log.append(kind)
        if kind == "kill rank":
            rank = rng.randrange(len(job.rank_processes))
            if job.rank_processes[rank].poll() is None:
                job.rank_processes[rank].kill()
                killed.add(rank)
            continue
        inject_into_server(job, rng, kind)
    return killed


def inject_into_server(job, rng, kind):
    j = rng.randrange(job.servers)
    server = job.server_processes[j]
    if kind == "list change":
        if job.list_file is not None:
            job.write_list(address for address in job.addresses if rng.random() < 0.6)
            time.sleep(rng.random() * 2)
            job.write_list(job.addresses)
        return
    if server.poll() is None:
        drains = kind.startswith("drain")
        server.send_signal(signal.SIGTERM if drains else signal.SIGKILL if kind.startswith("kill") else signal.SIGSTOP)
    if kind == "stop and continue server" and server.poll() is None:
        time.sleep(rng.choice([0.3, SERVER_TIMEOUT + 0.5]))
        server.send_signal(signal.SIGCONT)
    if kind.endswith("restart server"):
        time.sleep(rng.random())
        if kind.startswith("drain"):
            server.send_signal(signal.SIGCONT)  # an earlier fault may have stopped the server
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                if all(process.poll() is None for process in job.rank_processes):
                    raise Failed(f"server{j} does not drain") from None
                server.kill()
        job.restart_server(j)
        time.sleep(1.5 * rng.random())


def run(build, seed, outcomes, verbose):
    rng = random.Random(seed)
    folder = tempfile.mkdtemp(prefix="bps-campaign-")
    job = Job(build, folder, rng, plugin=rng.random() < 0.5)
    log = []
    before = len(glob.glob("/dev/shm/bps*"))
    try:
        specs, harmless = {}, ""
        if job.plugin:
            harmless = rng.choice(["", "delay:p=0.05,us=2000", "busy:p=0.3", "slow:p=0.5,polls=100;delay:p=0.02,us=500"])
            if rng.random() < 0.5:
                fault = rng.choice(["disconnect:bytes=9M", "disconnect:requests=2000,oneside=1", "fail:test=20000",
                                    "lose:at=3000", "fail:isend=3000"])
                specs[rng.randrange(job.servers)] = fault
                log.append("plugin of a server: " + fault.split(":")[0])
        job.start_servers(specs)
        job.start_ranks(options(rng), harmless)
        until = time.monotonic() + 20
        while not re.search(r"^ +\d+ +\d+ ", job.text("rank0.out"), re.M) and time.monotonic() < until:
            if job.rank_processes[0].poll() is not None:
                break
            time.sleep(0.02)
        killed = inject(job, rng, log)
        outcome = judge(job, killed)
    except Failed as failed:
        raise Failed(f"seed {seed}: {failed}\n{job.machines} machines of {job.per_machine} ranks, {job.servers} servers; "
                     f"faults: {', '.join(log)}\n{tails(job)}") from None
    finally:
        job.end()
        if not sys.exc_info()[0]:
            shutil.rmtree(folder)
    if (after := len(glob.glob("/dev/shm/bps*"))) > before:
        raise Failed(f"seed {seed}: {after - before} segments remain in /dev/shm")
    for what in sorted(set(log)):
        outcomes[what, outcome] += 1
    if verbose:
        print(f"  seed {seed}: {', '.join(log)}: {outcome}", flush=True)


def progress_of(job, living):
    """Lets the ranks log the state of their calls (docs/diagnosis.md), and returns all that changes with progress."""
    for rank in living:
        job.rank_processes[rank].send_signal(signal.SIGUSR1)
    time.sleep(2)
    state = re.compile(r" state: +(job .* queued: \d+|.* chunks complete)")
    return living, job.text("rank0.out"), [state.findall(job.text(f"rank{rank}.err"))[-3:] for rank in living]


def wait_for_ranks(job):
    seen, next_look = None, time.monotonic() + HANG_SECONDS
    while living := [rank for rank, process in enumerate(job.rank_processes) if process.poll() is None]:
        if time.monotonic() > next_look:
            if (progress := progress_of(job, living)) == seen:
                raise Failed(f"rank {living[0]} hangs")
            seen, next_look = progress, time.monotonic() + HANG_SECONDS
        time.sleep(0.1)


def judge(job, killed):
    wait_for_ranks(job)
    living = [rank for rank in range(len(job.rank_processes)) if rank not in killed]
    codes = [job.rank_processes[rank].returncode for rank in living]
    if not any(codes):
        if not killed and not re.search(r"^# Out of bounds values : 0 OK", job.text("rank0.out"), re.M):
            raise Failed("rank 0 does not confirm the values")
        return "right values"
    for rank in living:
        output = job.text(f"rank{rank}.out") + re.sub(r".* state: .*\n", "", job.text(f"rank{rank}.err"))
        rows = [line.split() for line in output.splitlines() if re.match(r" +\d+ +\d+ ", line)]
        if any(row[column] not in ("0", "N/A") for row in rows if len(row) == 13 for column in (8, 12)):
            raise Failed(f"rank {rank} has wrong values")
        if job.rank_processes[rank].returncode != 0 and not ERRORS.search(output):
            raise Failed(f"rank {rank} ended with status {job.rank_processes[rank].returncode} and names no culprit")
    if 0 in codes and not killed:
        raise Failed(f"some ranks failed and others did not: {codes}")
    if not killed:
        raise Failed("only servers had faults, but the calls failed")
    return "named error on all"


def tails(job):
    names = [f"rank{rank}" for rank in range(len(job.rank_processes))] + sorted(
        os.path.basename(path)[:-4] for path in glob.glob(os.path.join(job.folder, "server*.err")))
    return "\n".join(f"-- {name} ({job.folder})\n" + "\n".join(
        (job.text(name + ".err") or job.text(name + ".out")).splitlines()[-4:]) for name in names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    if not os.path.exists(os.path.join(given.build, "bin", "bps-server")):
        parser.error(f"BUILD is {given.build}, but there is no {given.build}/bin/bps-server")
    if given.runs < 1:
        parser.error(f"--runs is {given.runs}, but at least one run is needed")
    outcomes = collections.Counter()
    for seed in range(given.seed, given.seed + given.runs):
        try:
            run(os.path.realpath(given.build), seed, outcomes, given.verbose)
        except Failed as failed:
            sys.exit(f"FAILED: {failed}")
    print(f"{'fault':40} {'outcome':24} runs")
    for (fault, outcome), count in sorted(outcomes.items()):
        print(f"{fault:40} {outcome:24} {count:4}")


if __name__ == "__main__":
    main()

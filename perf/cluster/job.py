"""Runs one measurement: starts k servers and n workers, waits for them, and reads their times and byte counters."""
import contextlib
import json
import os
import re
import signal
import time

from cluster import machine
from cluster.network import read
from cluster.processes import Failure, wait_for_success, cpu_seconds, machine_ticks, wait

SERVER_PORT, ROOT_PORT = 7700, 7600
START_SECONDS = 60  # time limit of start-up and checks
WARM_UP = 1
LEAST, MOST, ENOUGH_SECONDS = 5, 40, 2.0  # limits of the iterations if --iters is not given


def environment(folder):
    """The script's own settings win; other settings of the caller (BPS_PARTITION_BYTES, ...) are passed on."""
    ours = {"BPS_SOCKET_IFNAME": "eth", "BPS_KEY_FILE": os.path.join(folder, "key"), "NCCL_SHM_DISABLE": "1"}
    return {**os.environ, **ours}


def write_key(path):
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as key:
        key.write(os.urandom(32))


def forwarded_variables():
    ours = {"BPS_SOCKET_IFNAME", "BPS_KEY_FILE", "BPS_ROOT", "BPS_RANK", "BPS_NRANKS", "BPS_HOSTID", "BPS_SERVERS",
            "NCCL_SHM_DISABLE"}
    return {name: value for name, value in sorted(os.environ.items())
            if name.startswith(("BPS_", "NCCL_")) and name not in ours}


class Job:
    def __init__(self, options, network, processes):
        self.options = options
        self.network = network
        self.processes = processes
        self.environment = environment(processes.folder)
        write_key(self.environment["BPS_KEY_FILE"])

    def program(self, name):
        return os.path.join(self.options.build, "bin", name)

    def settings(self, host, more):
        """If the machines have unequal rates, every process is told its own."""
        told = {"BPS_BANDWIDTH": f"{self.network.rates[host] / 1e9:.9g}"} if len(set(self.network.rates)) > 1 else {}
        if self.network.ranks_per_host is None and len(self.network.links[host]) > 1:
            told["BPS_TOPO_FILE"] = machine.write(self.processes.folder, host, self.network.links[host])
        return {**self.environment, **told, **self.network.settings(host), **more}

    def start_servers(self, count):
        servers = []
        for index in range(count):
            host = self.options.workers + index
            words = [self.program("bps-server"), "--listen", f"{self.network.address(host)}:{SERVER_PORT}",
                     "--key-file", self.environment["BPS_KEY_FILE"]]
            servers.append(self.processes.start(f"server{index}", self.network.host(host), words,
                                                self.settings(host, {})))
        until = time.monotonic() + START_SECONDS
        for server in servers:
            while "listening on" not in read(server.out):
                if wait([server], 0.02):
                    raise Failure(f"{server.name} ended with {server.status()} before it listened", server.output_tail())
                if time.monotonic() > until:
                    raise Failure(f"{server.name} does not listen after {START_SECONDS} s", server.output_tail())
        return servers

    def start_workers(self, count_servers, words):
        n = self.options.workers
        each = self.network.ranks_per_host or len(self.network.links[0])
        common = {"BPS_ROOT": f"{self.network.root()}:{ROOT_PORT}", "BPS_NRANKS": str(n * each),
                  "BPS_SERVERS": ",".join(f"{self.network.address(n + i)}:{SERVER_PORT}" for i in range(count_servers))}
        if count_servers == 0:
            del common["BPS_SERVERS"]
        return [self.processes.start(f"worker{rank}", self.network.host(rank // each), words,
                                     self.settings(rank // each, {**common, "BPS_RANK": str(rank),
                                                                  "BPS_HOSTID": f"emulated-{rank // each}"}))
                for rank in range(n * each)]

    def run(self, count_servers, words, limit):
        """Raw numbers of one run of a program on all workers, including the output of the first worker."""
        self.environment.pop("BPS_SERVERS", None)
        servers = self.start_servers(count_servers)
        hosts = self.options.workers + count_servers
        before, drops, (ticks, busy) = self.network.counters(hosts), self.network.drops(), machine_ticks()
        cpu, begin = [cpu_seconds(server.pid) for server in servers], time.monotonic()
        delaying = self.network.cpu_seconds()
        workers = self.start_workers(count_servers, words)
        wait_for_success(workers, limit + START_SECONDS)
        cpu = [cpu_seconds(server.pid) - used for server, used in zip(servers, cpu)]
        ticks, busy = (now - then for now, then in zip(machine_ticks(), (ticks, busy)))
        delaying = self.network.cpu_seconds() - delaying
        own = sum(cpu) + sum(worker.cpu for worker in workers) + delaying
        after = self.network.counters(hosts)
        result = {"nics": [difference(a, b) for a, b in zip(after, before)], "drops": self.network.drops() - drops,
                  "server_cpu_seconds": cpu, "worker_cpu_seconds": [worker.cpu for worker in workers],
                  "delay_line_cpu_seconds": delaying,
                  "machine_busy_percent": 100 * busy / max(1, ticks),
                  "own_busy_percent": 100 * own / ((time.monotonic() - begin) * os.cpu_count()),
                  "worker0": read(workers[0].out)}
        self.stop_servers(servers)
        self.processes.end()
        return result

    def stop_servers(self, servers):
        for server in servers:
            server.signal(signal.SIGTERM)
        if not wait(servers, 10):
            raise Failure("a server has not ended within 10 s of SIGTERM", "".join(s.output_tail(2) for s in servers))
        for server in servers:
            if server.status() != 0:
                raise Failure(f"{server.name} ended with status {server.status()}", server.output_tail())


def difference(after, before):
    return {way: {name: after[way][name] - before[way][name] for name in after[way]} for way in after}


def measure_size(job, count_servers, size, seconds):
    """`seconds`: the ideal time of one call. Times are the slowest rank's, of single calls one after the other."""
    path = os.path.join(job.processes.folder, "perf.json")
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)
    iterations = job.options.iters or min(MOST, max(LEAST, round(ENOUGH_SECONDS / seconds)))
    each = (iterations + 1) // 2  # bps-perf runs one half out of place and one half in place
    calls = WARM_UP + 2 * (1 + each + each + 1)  # each half: a first call, the run, single iterations, the check
    words = [job.program("bps-perf"), "-b", str(size), "-e", str(size), "-w", str(WARM_UP), "-n", str(each), "-c", "1",
             "-I", "1", "-J", path]
    result = job.run(count_servers, words, 20 * calls * seconds)
    report = json.loads(read(path))
    row = report["results"][0]
    halves = ("out_of_place", "in_place")
    wrong = sum(row[half]["nwrong"] for half in halves)
    if wrong:
        raise Failure(f"{wrong} elements are wrong")
    times = [micros * 1e-6 for half in halves for micros in row[half + "_per_iter"]["times_us"]]
    back_to_back = sum(row[half]["time"] * 1e-6 for half in halves) / 2
    return [{**result, "what": str(size), "bytes": size, "seconds": times, "back_to_back": back_to_back,
             "traffic_calls": calls + report["bps"]["startBytes"] / size}]


def measure_model(job, count_servers, name, seconds):
    """One row per pass (per tensor, buckets). bps-perf prints only medians, and the counters cover both passes."""
    iterations = job.options.iters or LEAST
    words = [job.program("bps-perf"), "--model", name, "-w", str(WARM_UP), "-n", str(iterations)]
    result = job.run(count_servers, words, 40 * (WARM_UP + iterations) * seconds)
    rows = re.findall(r"^  (\S.*?) +(\d+) +(\d+) +([\d.]+) +[\d.]+$", result["worker0"], re.MULTILINE)
    if not rows:
        raise Failure(f"no passes in bps-perf's output for --model {name}")
    return [{**result, "what": what.replace(" ", "_"), "bytes": int(size), "calls": int(calls),
             "seconds": [float(millis) * 1e-3], "traffic_calls": len(rows) * (WARM_UP + iterations)}
            for what, calls, size, millis in rows]

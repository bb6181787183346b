"""Starts the ranks of ddp_bench on the emulated cluster, and compares what they computed."""
import json
import os
import statistics

from cluster import job as jobs
from cluster.network import read
from cluster.processes import Failure

HERE = os.path.dirname(os.path.abspath(__file__))
MASTER_PORT = 29500
MOVE_TOLERANCE = 0.01  # after the warm-up; later a ReLU that rounding has switched can make large differences
ROUNDING = 5e-5  # of the length of a tensor: some steps change its elements by some times 6e-8, and twice this is allowed
WARM_UP = 2  # DDP arranges its buckets after the first step
TIMES = ("iteration", "compute", "communication")


class Job(jobs.Job):
    """Gives the ranks PyTorch's variables in addition to those of bps."""

    def start_workers(self, count_servers, words):
        self.next_rank = 0
        self.common = {
            "MASTER_ADDR": self.network.address(0), "MASTER_PORT": str(MASTER_PORT), "OMP_NUM_THREADS": "1",
            "WORLD_SIZE": str(self.options.workers), "GLOO_SOCKET_IFNAME": "eth0", "PYTHONDONTWRITEBYTECODE": "1"}
        return super().start_workers(count_servers, words)

    def settings(self, host, more):
        if host >= self.options.workers or "BPS_RANK" not in more:
            return super().settings(host, more)
        own = {name: value for name, value in more.items() if name in ("BPS_SERVERS", "BPS_HOSTID")}
        return super().settings(host, {**own, **self.common, "RANK": more["BPS_RANK"]})


def cases(options):
    return [{"bucket_mb": bucket, "accumulate": accumulate, "groups": groups} for groups in options.groups
            for accumulate in options.accumulate for bucket in options.bucket_mb]


def seconds_at_least(options):
    """A lower bound of the time of a launch on these links, for its time limit."""
    step = 8 * options.megabytes * 1e6 / options.rate * 2 + 2 * options.accelerator * max(options.accumulate)
    return step * 2 * (WARM_UP + options.iters + 1) * len(cases(options))


def run(job, python, backend, k):
    """Trains with one backend. Returns the results of each case, times of the slowest rank."""
    options, folder = job.options, job.processes.folder
    path = os.path.join(folder, "config.json")
    with open(path, "w") as file:
        json.dump({"backend": backend, "model": options.model, "megabytes": options.megabytes, "batch": options.batch,
                   "accelerator_seconds": options.accelerator,
                   "iters": options.iters, "warm_up": WARM_UP, "cases": cases(options), "folder": folder}, file)
    outputs = [os.path.join(folder, f"rank{rank}.json") for rank in range(options.workers)]
    for output in outputs:
        if os.path.exists(output):
            os.remove(output)
    launched = job.run(k, [python, os.path.join(HERE, "rank.py"), path], 120 + 20 * seconds_at_least(options))
    ranks = [json.loads(read(output)) for output in outputs]
    merged = [merge([rank["cases"][index] for rank in ranks], case) for index, case in enumerate(cases(options))]
    facts = {name: launched[name] for name in ("server_cpu_seconds", "worker_cpu_seconds", "drops", "own_busy_percent",
                                               "machine_busy_percent")}
    facts["peak_memory_bytes"] = max(rank["peak_memory_bytes"] for rank in ranks)
    return [{**case, **facts} for case in merged]


def merge(ranks, case):
    """One case of all ranks: a time is the slowest rank's, per batch; the loss is the mean of the ranks' losses."""
    times = {name: [max(seconds) / case["accumulate"] for seconds in zip(*(rank["times"][name] for rank in ranks))]
             for name in TIMES}
    if len({rank["sum"] for rank in ranks}) != 1:
        raise Failure(f"{case}: the parameters of the ranks differ", "".join(f"    {rank['sum']}\n" for rank in ranks))
    losses = [statistics.fmean(losses) for losses in zip(*(rank["losses"] for rank in ranks))]
    return {"case": case, "times": times, "losses": losses, "moves": ranks[0]["moves"], "sum": ranks[0]["sum"],
            "buckets": ranks[0]["buckets"], "parameter_bytes": ranks[0]["parameter_bytes"]}


def difference(losses, others):
    """The greatest relative difference of two lists of losses."""
    return max(abs(a - b) / max(abs(a), abs(b), 1e-9) for a, b in zip(losses, others))


def deviation(moves, others):
    """The greatest difference of two trainings' moves of a tensor, relative to the move. The part of a move in a random
    direction of standard normal numbers is about as long as the move. Moves that are so small that rounding changes them
    count as longer."""
    return max(max(abs(moved - other_moved), abs(part - other_part)) / (max(moved, other_moved) + ROUNDING * length + 1e-30)
               for (length, moved, part), (_, other_moved, other_part) in zip(moves, others))


def compare(results, tolerance):
    """`results`: of one case with all backends. Returns the faults as text, and the greatest difference of losses and of
    the parameters' moves."""
    faults, greatest, furthest = [], 0.0, 0.0
    first = results[0]
    for result in results:
        if any(loss != loss for loss in result["losses"]):
            faults.append(f"{name(result)}: a loss is not a number")
        apart = difference(result["losses"], first["losses"])
        greatest = max(greatest, apart)
        if not apart <= tolerance:
            faults.append(f"{name(result)}: its losses differ from those of {name(first)} by {apart:.2g} of their value")
        apart = deviation(result["moves"], first["moves"])
        furthest = max(furthest, apart)
        if not apart <= MOVE_TOLERANCE:
            faults.append(f"{name(result)}: it changed the parameters in another way than {name(first)}: {apart:.2g} of "
                          "the change")
    ours = [result for result in results if result["backend"] == "bps"]
    faults += [f"{name(result)}: its parameters have other bits than those of {name(ours[0])}" for result in ours[1:]
               if result["sum"] != ours[0]["sum"]]
    return faults, greatest, furthest


def name(result):
    return f"bps with k = {result['k']}" if result["backend"] == "bps" else result["backend"]

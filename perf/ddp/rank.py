"""One rank of ddp_bench: trains with DistributedDataParallel and writes its times. Usage: rank.py CONFIG.json

The order of one round is: a step as in training, the same step without communication, and the all-reduces of the step
alone. All three see the same disturbances by other programs. Ranks start each of them together.
"""
import contextlib
import hashlib
import itertools
import json
import os
import resource
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import models

LEARNING_RATE = 0.01  # with 0.05 the transformer amplifies differences of rounding to 0.1 % of the loss


def alternate(groups, bucket):
    """A communication hook that gives DDP's buckets to several process groups in turn. `groups`: an endless iterator."""
    buffer = bucket.buffer().div_(dist.get_world_size())
    return dist.all_reduce(buffer, group=next(groups), async_op=True).get_future().then(lambda done: done.value()[0])


class Case:
    """One model with one setting of DDP."""

    def __init__(self, config, case, groups):
        self.config = config
        self.accumulate = case["accumulate"]
        network, self.shape = models.make(config["model"], config["megabytes"], config["accelerator_seconds"])
        self.parameters = list(network.parameters())
        self.first = [parameter.detach().clone() for parameter in self.parameters]
        self.groups = groups[:case["groups"] or 1]
        self.ddp = DistributedDataParallel(network, bucket_cap_mb=case["bucket_mb"], broadcast_buffers=False)
        if case["groups"] is not None:
            self.ddp.register_comm_hook(itertools.cycle(self.groups), alternate)
        self.optimizer = torch.optim.SGD(self.parameters, lr=LEARNING_RATE)
        self.buffers = []

    def batches(self, round_):
        seed = 1_000_000 * dist.get_rank() + 100 * round_
        return [models.batch(self.shape, self.config["batch"], seed + i) for i in range(self.accumulate)]

    def step(self, batches, communicate):
        """One optimizer step: the gradients of all batches are summed, and DDP all-reduces them in the last one."""
        total = 0.0
        for index, (inputs, labels) in enumerate(batches):
            last = communicate and index == len(batches) - 1
            with contextlib.nullcontext() if last else self.ddp.no_sync():
                loss = torch.nn.functional.cross_entropy(self.ddp(inputs), labels) / len(batches)
                loss.backward()
            total += loss.item()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    def compute(self, batches):
        with torch.no_grad():
            saved = [parameter.clone() for parameter in self.parameters]
        seconds = timed(lambda: self.step(batches, False))
        with torch.no_grad():
            for parameter, before in zip(self.parameters, saved):
                parameter.copy_(before)
        return seconds

    def make_buffers(self):
        """As many buffers of the same sizes as DDP's buckets. DDP knows its buckets after the first steps."""
        facts = self.ddp._get_ddp_logging_data()
        sizes = facts.get("rebuilt_bucket_sizes") or facts["bucket_sizes"]
        self.buffers = [torch.zeros(int(size) // 4) for size in str(sizes).split(",")]

    def communicate(self):
        works = [dist.all_reduce(buffer, group=self.groups[index % len(self.groups)], async_op=True)
                 for index, buffer in enumerate(self.buffers)]
        for work in works:
            work.wait()

    def moves(self):
        """For each tensor of parameters, its length, how far training moved it, and how far in a random direction."""
        found = []
        generator = torch.Generator().manual_seed(2)
        for parameter, before in zip(self.parameters, self.first):
            move = (parameter.detach().double() - before.double()).flatten()
            direction = torch.randn(move.numel(), generator=generator, dtype=torch.double)
            found.append((before.double().norm().item(), move.norm().item(), (move @ direction).item()))
        return found

    def run(self):
        times = {"iteration": [], "compute": [], "communication": []}
        losses, moves = [], []
        for round_ in range(self.config["warm_up"] + self.config["iters"]):
            batches = self.batches(round_)
            iteration = timed(lambda: losses.append(self.step(batches, True)))
            compute = self.compute(batches)
            if round_ == self.config["warm_up"] - 1:
                self.make_buffers()
                moves = self.moves()
            communication = timed(self.communicate)
            if round_ >= self.config["warm_up"]:
                for name, seconds in (("iteration", iteration), ("compute", compute), ("communication", communication)):
                    times[name].append(seconds)
        return {"times": times, "losses": losses, "sum": checksum(self.parameters), "moves": moves,
                "buckets": [4 * buffer.numel() for buffer in self.buffers],
                "parameter_bytes": sum(4 * parameter.numel() for parameter in self.parameters)}


def timed(work):
    dist.barrier()
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def checksum(parameters):
    digest = hashlib.sha256()
    for parameter in parameters:
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()


def main():
    with open(sys.argv[1]) as file:
        config = json.load(file)
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    dist.init_process_group(config["backend"])
    groups = [dist.group.WORLD]
    groups += [dist.new_group() for _ in range(max(case["groups"] or 1 for case in config["cases"]) - 1)]
    results = [Case(config, case, groups).run() for case in config["cases"]]
    dist.barrier()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with open(os.path.join(config["folder"], f"rank{rank}.json"), "w") as file:
        json.dump({"cases": results, "torch": torch.__version__, "peak_memory_bytes": memory}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

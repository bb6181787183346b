"""Trains with bps_torch.Reducer and with DistributedDataParallel; gradients and parameters must be the same."""

import copy

import bps_torch
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("bps")
RANK, SIZE = dist.get_rank(), dist.get_world_size()


class Model(torch.nn.Module):
    """Four layers; each rank may leave out one of the last two."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(20, 200)
        self.second = torch.nn.Linear(200, 200)
        self.left, self.right = torch.nn.Linear(200, 10), torch.nn.Linear(200, 10)
        self.never = torch.nn.Linear(3, 3)

    def forward(self, batch, branch):
        hidden = torch.tanh(self.second(torch.tanh(self.first(batch))))
        both = self.left(hidden) if branch == "left" else self.right(hidden)
        return both + self.right(hidden) if branch == "both" else both


def branch_of(step):
    return "both" if step % 3 == 0 else "left" if (step + RANK) % 2 else "right"


def batches(steps):
    generator = torch.Generator().manual_seed(RANK)
    return [torch.randn(8, 20, generator=generator) for _ in range(steps)]


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def train_with_ddp(model, steps):
    model = DistributedDataParallel(model, find_unused_parameters=True)
    optimizer = sgd(model)
    for step, batch in enumerate(batches(steps)):
        optimizer.zero_grad()
        model(batch, branch_of(step)).square().mean().backward()
        optimizer.step()


def train_with_reducer(model, steps, set_to_none=True, manual=False, **options):
    reducer = bps_torch.Reducer(model, **options)
    optimizer = sgd(model)
    for step, batch in enumerate(batches(steps)):
        optimizer.zero_grad(set_to_none=set_to_none)
        with reducer.iteration(wait=not manual):
            model(batch, branch_of(step)).square().mean().backward()
        if manual:
            for parameter in model.parameters():
                reducer.wait(parameter)
            reducer.finish()
        optimizer.step()
    stats = reducer.stats()
    assert sum(bucket.parameters for bucket in stats) == len(list(model.parameters()))
    assert all(0 <= bucket.ready <= bucket.launch <= bucket.done for bucket in stats), stats
    reducer.close()


torch.manual_seed(0)
start = Model()
wanted = copy.deepcopy(start)
train_with_ddp(wanted, 9)
cases = {
    "default": {},
    "small buckets": dict(bucket_mb=0.01, first_bucket_mb=0.001),
    "gradients kept": dict(set_to_none=False, bucket_mb=0.1),
    "two communicators": dict(bucket_mb=0.01, communicators=2),
    "urgent": dict(bucket_mb=0.1, urgent_mb=0.02, manual=True),
}
for name, options in cases.items():
    model = copy.deepcopy(start)
    train_with_reducer(model, 9, **options)
    for (parameter, got), expected in zip(model.named_parameters(), wanted.parameters()):
        assert torch.equal(got, expected), f"{name}: {parameter} differs by {(got - expected).abs().max()}"
    assert model.never.weight.grad is None or not model.never.weight.grad.any(), name
    if RANK == 0:
        print(f"{name} ok")

# Accumulation over three iterations gives the average of the sums.
model = copy.deepcopy(start)
reducer = bps_torch.Reducer(model)
for step in range(3):
    with reducer.iteration(synchronize=step == 2):
        model(batches(3)[step], "both").square().mean().backward()
alone = copy.deepcopy(start)
for batch in batches(3):
    alone(batch, "both").square().mean().backward()
for got, local in zip(model.parameters(), alone.parameters()):
    if local.grad is None:
        continue
    expected = local.grad.clone()
    dist.all_reduce(expected, dist.ReduceOp.AVG)
    assert torch.equal(got.grad, expected)
for wrong, text in ((lambda: reducer.finish(), "bpsReducerFinish"), (lambda: reducer.wait(torch.zeros(1)), "")):
    try:
        wrong()
        raise AssertionError("did not fail")
    except (RuntimeError, KeyError) as error:
        assert text in str(error), error
if RANK == 0:
    print("accumulation ok")
reducer.close()
del reducer
dist.destroy_process_group()

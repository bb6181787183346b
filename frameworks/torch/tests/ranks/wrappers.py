"""Trains a small model with FSDP, ZeRO and DDP's communication hooks; the result must be that of one process."""

import copy

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("bps")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
START = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
BATCH = torch.randn(8 * SIZE, 16)
STEPS = 5


def train(model, optimizer, batch):
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


alone = copy.deepcopy(START)
train(alone, sgd(alone.parameters()), BATCH)
WANTED = [parameter.detach() for parameter in alone.parameters()]
MINE = BATCH.chunk(SIZE)[RANK]


def compare(name, parameters, tolerance=1e-5):
    for got, wanted in zip(parameters, WANTED):
        assert torch.allclose(got, wanted, atol=tolerance, rtol=tolerance), f"{name}: {(got - wanted).abs().max()}"
    if RANK == 0:
        print(f"{name} ok")


for name, hook, tolerance in (("ddp", None, 1e-5), ("fp16", default_hooks.fp16_compress_hook, 2e-2),
                              ("bf16", default_hooks.bf16_compress_hook, 5e-2),
                              ("allreduce hook", default_hooks.allreduce_hook, 1e-5)):
    for view in (False, True):
        model = DistributedDataParallel(copy.deepcopy(START), gradient_as_bucket_view=view)
        if hook:
            model.register_comm_hook(dist.group.WORLD, hook)
        train(model, sgd(model.parameters()), MINE)
        compare(f"{name} view={view}", model.parameters(), tolerance)

model = DistributedDataParallel(copy.deepcopy(START))
train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9), MINE)
compare("zero", model.parameters())

model = copy.deepcopy(START)
for layer in model:
    if list(layer.parameters()):
        fully_shard(layer)
fully_shard(model)
train(model, sgd(model.parameters()), MINE)
compare("fsdp", [parameter.full_tensor() for parameter in model.parameters()])
dist.destroy_process_group()

"""Changes parameters of several types and layouts with bps_torch.AsyncOptimizer, and compares the end with the sum of all
changes. With the argument "different", rank 1 has another model."""

import sys

import torch
import torch.distributed as dist

import bps_torch

STEPS = 5
dist.init_process_group("bps")
rank, ranks = dist.get_rank(), dist.get_world_size()
size = 13 if "different" in sys.argv and rank == 1 else 12
parameters = [
    torch.arange(size).float() * (rank + 1),
    torch.arange(1200).double().reshape(2, 3, 10, 20).to(memory_format=torch.channels_last) + rank,
    (torch.arange(70) + rank).to(torch.bfloat16).reshape(7, 10).t(),
    torch.zeros(0),
]
initial = [torch.arange(12).float(), torch.arange(1200).double().reshape(2, 3, 10, 20),
           torch.arange(70).to(torch.bfloat16).reshape(7, 10).t(), torch.zeros(0)]
layouts = [parameter.stride() for parameter in parameters]
optimizer = bps_torch.AsyncOptimizer(torch.optim.SGD(parameters, lr=1.0))
for step in range(STEPS):
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, float(rank + 1))
    optimizer.step()
    own = optimizer.pushes()
    assert own[rank] == step + 1, own
optimizer.finish()
total = STEPS * ranks * (ranks + 1) // 2
assert optimizer.pushes() == [STEPS] * ranks, optimizer.pushes()
for index, (parameter, start) in enumerate(zip(parameters, initial)):
    assert parameter.stride() == layouts[index], index
    assert torch.equal(parameter, start - total), (index, parameter, start - total)
if rank == 0:
    print("all as expected")
dist.destroy_process_group()

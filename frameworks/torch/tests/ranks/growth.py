"""1000 iterations of DDP, each with a sum of its own and a future; memory, descriptors and threads must not grow."""

import gc
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def used():
    resident = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident >> 10, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


dist.init_process_group("bps")
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(100, 100), torch.nn.Linear(100, 10)), bucket_cap_mb=0.02)
batch = torch.randn(4, 100)


def iterations(count):
    for _ in range(count):
        model(batch).sum().backward()
        model.zero_grad()
        total = torch.ones(1000)
        dist.all_reduce(total)
        dist.all_reduce(torch.ones(10), async_op=True).get_future().wait()


iterations(1500)  # caches fill
for attempt in range(4):  # a thread starts when callbacks overlap as never before, which is no growth; a leak grows in all
    before = used()
    iterations(1000)
    after = used()
    print(f"KiB, descriptors, threads: {before} -> {after}")
    grew = torch.tensor([float(after[0] - before[0] >= 1024 or after[1:] != before[1:])])
    dist.all_reduce(grew)  # the ranks go on or stop together
    if not grew:
        break
else:
    raise AssertionError((before, after))


def groups(count):
    """Makes and destroys process groups."""
    for _ in range(count):
        group = dist.new_group(backend="bps")
        dist.all_reduce(torch.ones(10), group=group)
        dist.destroy_process_group(group)
        del group
    gc.collect()
    time.sleep(1)


groups(2)
before = used()
groups(10)
after = used()
print(f"10 groups: {before} -> {after}")
assert after[1] <= before[1] and after[2] <= before[2], (before, after)
dist.destroy_process_group()

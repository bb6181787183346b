"""All-reduces until something fails, and prints the exception with the time that the failing call took."""

import sys
import time

import torch
import torch.distributed as dist

kind, timeout = sys.argv[1], float(sys.argv[2])
dist.init_process_group("bps")
dist.distributed_c10d._get_default_group().set_timeout(__import__("datetime").timedelta(seconds=timeout)) if timeout else None
rank = dist.get_rank()
tensor = torch.ones(300000)
for step in range(100000):
    if kind == "late" and step == 20 and rank == 1:
        time.sleep(1000)
    start = time.monotonic()
    try:
        if kind == "future":
            dist.all_reduce(tensor, async_op=True).get_future().wait()
        else:
            dist.all_reduce(tensor)
    except Exception as error:  # noqa: BLE001: the test looks at it
        print(f"failed after {time.monotonic() - start:.1f} s: {type(error).__name__}: {error}")
        try:
            dist.all_reduce(tensor)
        except Exception as again:  # noqa: BLE001
            print(f"again: {again}")
        break
    assert tensor[0] == dist.get_world_size(), tensor
    tensor.fill_(1)
    if step in (20, 200):
        print(f"step {step}")
    if step >= 400 and kind == "server":
        print("done")
        break
sys.stdout.flush()
if kind == "server":
    dist.destroy_process_group()

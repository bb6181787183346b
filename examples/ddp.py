"""PyTorch's DistributedDataParallel with summation servers: nothing of bps stands in the program.

On every machine (and `bps-server --key-file /etc/bps.key` on the CPU machines):

  export LD_PRELOAD=/usr/local/lib/libbps-nccl.so BPS_SERVERS=cpu1:7700,cpu2:7700 BPS_KEY_FILE=/etc/bps.key
  BPS_DEBUG=INFO torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint $FIRST:29500 examples/ddp.py

Prints the losses; without the preload line, or with BPS_DISABLE=1, they are the same up to the order of summation.
Has not been run with a GPU yet.
"""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH, WIDTH = 100, 32, 4096


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.manual_seed(0)  # the same weights on every rank
    layers = [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 10)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers).to(device), device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(dist.get_rank() + 1)  # different data on every rank
    for step in range(STEPS):
        inputs = torch.randn(BATCH, WIDTH, device=device)
        labels = torch.randint(10, (BATCH,), device=device)
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 and dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

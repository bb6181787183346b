"""Trains a network on handwritten digits with PyTorch's DistributedDataParallel, on CPUs or GPUs.

On this machine, with CPUs only (the package is frameworks/torch; PyTorch finds its backend "bps" by itself):

  torchrun --nproc-per-node 4 examples/ddp.py --backend bps

With summation servers, on every machine (and `bps-server --key-file /etc/bps.key` on the machines cpu1 and cpu2):

  export BPS_SERVERS=cpu1:7700,cpu2:7700 BPS_KEY_FILE=/etc/bps.key
  torchrun --nnodes 4 --nproc-per-node 1 --rdzv-backend c10d --rdzv-endpoint $FIRST:29500 examples/ddp.py --backend bps

With GPUs and NCCL, bps replaces NCCL's all-reduce in the unchanged program:

  export LD_PRELOAD=/usr/local/lib/libbps-nccl.so
  torchrun --nnodes 4 --nproc-per-node 8 ... examples/ddp.py --backend nccl

The losses are the same with every backend, up to the order of summation. With bps they have the same bits for every
number of servers. The program has not been run with a GPU yet.
"""

import argparse
import contextlib
import hashlib
import os
import pathlib

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

DIGITS = pathlib.Path(__file__).parent / "data" / "digits.bin"
HOOKS = {"none": None, "fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=("bps", "gloo", "nccl"), default="bps")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
    parser.add_argument("--bucket-mb", type=float, default=25, help="size of DDP's buckets in MiB")
    parser.add_argument("--accumulate", type=int, default=1, help="steps between two all-reduces (DDP's no_sync)")
    parser.add_argument("--hook", choices=HOOKS, default="none", help="compress gradients")
    return parser.parse_args()


def load_digits(device):
    """Returns the images, between 0 and 1, and the digits that they show."""
    rows = torch.frombuffer(bytearray(DIGITS.read_bytes()), dtype=torch.uint8).reshape(-1, 65)
    return (rows[:, :64].float() / 16).reshape(-1, 1, 8, 8).to(device), rows[:, 64].long().to(device)


def make_model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(1024, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def train(model, device, options):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    images, digits = load_digits(device)
    held_out = len(images) // 10
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(options.epochs):
        order = torch.randperm(len(images) - held_out, generator=torch.Generator().manual_seed(epoch)) + held_out
        steps = len(order) // (options.batch * ranks)
        for step in range(steps):
            mine = order[(step * ranks + rank) * options.batch:][:options.batch].to(device)
            last = (step + 1) % options.accumulate == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = torch.nn.functional.cross_entropy(model(images[mine]), digits[mine])
                (loss / options.accumulate).backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        with torch.no_grad():
            right = (model.module(images[:held_out]).argmax(1) == digits[:held_out]).float().mean()
        if rank == 0:
            print(f"epoch {epoch}: loss {total.item() / ranks:.6f}, {100 * right:.1f} % of new digits right", flush=True)


def checksum(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def main():
    options = arguments()
    dist.init_process_group(options.backend)
    device = torch.device("cpu")
    if options.backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.manual_seed(0)
    model = DistributedDataParallel(make_model().to(device), bucket_cap_mb=options.bucket_mb)
    if HOOKS[options.hook]:
        model.register_comm_hook(None, HOOKS[options.hook])
    train(model, device, options)
    sums = [None] * dist.get_world_size()
    dist.all_gather_object(sums, checksum(model))
    if dist.get_rank() == 0:
        print(f"parameters {sums[0]} on all {len(sums)} ranks" if len(set(sums)) == 1 else f"parameters differ: {sums}")
    dist.destroy_process_group()
    return len(set(sums)) != 1


if __name__ == "__main__":
    raise SystemExit(main())

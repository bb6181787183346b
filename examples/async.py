"""Trains a network on handwritten digits asynchronously: each rank trains at its own speed, on parameters that the
summation servers and the ranks keep (frameworks/torch, bps_torch.AsyncOptimizer).

  torchrun --nproc-per-node 4 examples/async.py
  BPS_STALENESS=4 torchrun --nproc-per-node 4 examples/async.py --slow 3

With BPS_STALENESS=0 the ranks train in step. --slow RANK makes a rank ten times as slow. Each rank prints the loss and the
accuracy that its parameters have on images that no rank has learned from, as the training goes on.
"""

import argparse
import pathlib
import time

import torch
import torch.distributed as dist

import bps_torch

DIGITS = pathlib.Path(__file__).parent / "data" / "digits.bin"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="steps of each rank")
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
    parser.add_argument("--rate", type=float, default=0.2, help="learning rate")
    parser.add_argument("--slow", type=int, default=-1, help="a rank that needs ten times as long for a step")
    parser.add_argument("--every", type=int, default=0, help="print the loss after so many steps; 0: only at the end")
    return parser.parse_args()


def load_digits():
    """Returns the images, between 0 and 1, and the digits that they show."""
    rows = torch.frombuffer(bytearray(DIGITS.read_bytes()), dtype=torch.uint8).reshape(-1, 65)
    return rows[:, :64].float() / 16, rows[:, 64].long()


def make_model():
    return torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )


def evaluate(model, images, digits):
    with torch.no_grad():
        scores = model(images)
        loss = torch.nn.functional.cross_entropy(scores, digits)
        return loss.item(), (scores.argmax(1) == digits).float().mean().item()


def main():
    options = arguments()
    dist.init_process_group("bps")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = make_model()
    images, digits = load_digits()
    learn = len(images) * 4 // 5
    # The changes of all ranks add up, as gradients that are summed do. So each change counts for one n-th.
    optimizer = bps_torch.AsyncOptimizer(torch.optim.SGD(model.parameters(), lr=options.rate), scale=1 / ranks)
    choice = torch.Generator().manual_seed(100 + rank)
    begin = time.monotonic()
    for step in range(1, options.steps + 1):
        started = time.monotonic()
        chosen = torch.randint(learn, (options.batch,), generator=choice)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images[chosen]), digits[chosen]).backward()
        if rank == options.slow:
            time.sleep(9 * (time.monotonic() - started))
        optimizer.step()
        if options.every and step % options.every == 0:
            loss, accuracy = evaluate(model, images[learn:], digits[learn:])
            print(f"rank {rank}, step {step}: loss {loss:.4f}, accuracy {accuracy:.4f}", flush=True)
    seconds = time.monotonic() - begin
    optimizer.finish()
    loss, accuracy = evaluate(model, images[learn:], digits[learn:])
    print(
        f"rank {rank} of {ranks}: {options.steps / seconds:.0f} steps/s, loss {loss:.4f}, accuracy {accuracy:.4f}, "
        f"steps of the ranks {optimizer.pushes()}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""One scenario a run: python lifecycle.py NAME. Prints "NAME ok" on every rank."""

import ctypes
import datetime
import gc
import os
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

NAME = sys.argv[1]


def start(seconds=60):
    dist.init_process_group("bps", timeout=datetime.timedelta(seconds=seconds))
    return dist.get_rank(), dist.get_world_size()


def total(value=1.0, **options):
    tensor = torch.full((10,), value)
    dist.all_reduce(tensor, **options)
    return tensor[0].item()


def expect_error(text, run):
    try:
        run()
    except Exception as error:  # noqa: BLE001: the text counts
        assert text in str(error), error
        return
    raise AssertionError(f"no error with {text!r}")


def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def failed_coalesced_call():
    _, size = start()
    integers = [torch.ones(3, dtype=torch.int8) for _ in range(2)]
    premul = dist._make_nccl_premul_sum(1000.0)
    expect_error("floating", lambda: dist.all_reduce_coalesced(integers, premul))
    assert total(op=dist._make_nccl_premul_sum(0.5)) == size / 2
    halves = [torch.ones(3), torch.ones(300)]
    dist.all_reduce_coalesced(halves, dist._make_nccl_premul_sum(0.5))
    assert all(torch.all(half == size / 2) for half in halves)


def nested_futures():
    _, size = start(20)

    def inner(_):
        return dist.all_reduce(torch.ones(5), async_op=True).get_future().then(
            lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0]).wait()

    begin = time.monotonic()
    assert dist.all_reduce(torch.ones(5), async_op=True).get_future().then(inner).wait()[0] == size * size
    assert time.monotonic() - begin < 10


def power_sgd():
    rank, _ = start(30)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)]), bucket_cap_mb=0.02)
    state = powerSGD_hook.PowerSGDState(dist.group.WORLD, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    for step in range(5):
        model(torch.randn(4, 64, generator=torch.Generator().manual_seed(step + rank))).sum().backward()


def dropped_works():
    start()
    dist.all_reduce(torch.ones(1 << 21), async_op=True)
    total()
    before = resident()
    for _ in range(30):
        dist.all_reduce(torch.ones(1 << 21))
    big = torch.ones(1 << 25)
    dist.all_reduce(big)
    del big
    gc.collect()
    time.sleep(2.5)
    ctypes.CDLL(None).malloc_trim(0)
    after = resident()
    assert after - before < 60, (before, after)


def shorter_time_out():
    rank, _ = start()
    total()
    dist.distributed_c10d._get_default_group().set_timeout(datetime.timedelta(seconds=3))
    if rank == 1:
        time.sleep(8)
    begin = time.monotonic()
    expect_error("rank 0" if rank == 1 else "the time-out of the process group", total)
    assert time.monotonic() - begin < 6


def shutdown_in_callback():
    start()
    done = threading.Event()

    def end(_):
        dist.destroy_process_group()
        done.set()

    dist.all_reduce(torch.ones(5), async_op=True).get_future().then(end)
    assert done.wait(20)


def shutdown_with_works():
    _, size = start()
    tensors = [torch.ones(100000) for _ in range(10)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    dist.destroy_process_group()
    for work, tensor in zip(works, tensors):
        work.wait()
        assert work.is_success() and torch.all(tensor == size)


def abort():
    rank, _ = start()
    total()
    if rank == 0:
        group = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
        threading.Timer(1, group.abort).start()
        begin = time.monotonic()
        expect_error("aborted by this process", total)
        assert time.monotonic() - begin < 5
    else:
        time.sleep(2)
        expect_error("rank 0", total)


def abort_while_starting():
    rank, _ = start()
    group = dist.new_group(backend="bps")
    if rank == 0:
        backend = group._get_backend(torch.device("cpu"))
        threading.Timer(1, backend.abort).start()
        begin = time.monotonic()
        expect_error("aborted by this process", lambda: total(group=group))
        assert time.monotonic() - begin < 5
    time.sleep(2)


def missing_rank():
    rank, _ = start()
    group = dist.new_group(backend="bps", timeout=datetime.timedelta(seconds=2))
    if rank != 1:
        expect_error("missing ranks: 1", lambda: total(group=group))


def two_groups_in_threads():
    rank, size = start(30)
    groups = [dist.new_group(backend="bps") for _ in range(2)]
    sums = [0, 0]

    def run(index):
        time.sleep(0.5 * (index if rank else 1 - index))
        sums[index] = total(group=groups[index])

    threads = [threading.Thread(target=run, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sums == [size, size], sums


def exit_without_destroy():
    _, size = start()
    assert total() == size


def exit_in_callback():
    start()
    begun = threading.Event()

    def callback(_):
        begun.set()
        time.sleep(1)

    dist.all_reduce(torch.ones(5), async_op=True).get_future().then(callback)
    assert begun.wait(20)  # a rank that exits before the others have called ends their call


def forked_child():
    _, size = start()
    total()
    pid = os.fork()
    if pid == 0:
        try:
            expect_error("a forked process cannot use", total)
        except BaseException:  # noqa: BLE001
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert total() == size


def start_again():
    for _ in range(3):
        _, size = start()
        assert total() == size
        dist.destroy_process_group()
        time.sleep(0.5)


def debug_detail():
    import bps_torch

    _, size = start()
    assert total() == size
    assert bps_torch.describe()["ranks"] == size


globals()[NAME]()
print(f"{NAME} ok", flush=True)

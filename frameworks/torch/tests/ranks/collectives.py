"""Compares every collective of backend bps with the same collective of Gloo. Each rank runs this program."""

import itertools

import torch
import torch.distributed as dist

dist.init_process_group("bps")
GLOO = dist.new_group(backend="gloo")
RANK, SIZE = dist.get_rank(), dist.get_world_size()
checked = 0


def mine(shape=(5, 7), dtype=torch.float32, salt=0):
    """Numbers that differ between ranks, small enough to be exact in every type."""
    numbers = torch.randint(1, 4, shape, generator=torch.Generator().manual_seed(100 * salt + RANK))
    return numbers.to(dtype)


def same(name, run):
    """run(group) -> what the collective gave; it must be equal for bps and for Gloo."""
    global checked
    got, wanted = run(None), run(GLOO)
    for a, b in itertools.zip_longest(got, wanted):
        equal = torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        assert equal, f"rank {RANK}: {name}: bps gave {a}, Gloo {b}"
    checked += 1


def fails_as_gloo(name, run):
    """The collective must fail with both, or with neither."""
    global checked
    errors = []
    for group in (None, GLOO):
        try:
            run(group)
            errors.append(None)
        except Exception as error:  # noqa: BLE001: any exception counts
            errors.append(error)
    assert (errors[0] is None) == (errors[1] is None), f"{name}: bps {errors[0]!r}, Gloo {errors[1]!r}"
    checked += 1


def all_reduce(tensor, op):
    def run(group):
        result = tensor.clone()
        dist.all_reduce(result, op, group=group)
        return [result]
    return run


OPS = dist.ReduceOp
BUILT_IN = (OPS.SUM, OPS.PRODUCT, OPS.MIN, OPS.MAX)
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64):
    for op in BUILT_IN:
        same(f"all_reduce {dtype} {op}", all_reduce(mine(dtype=dtype), op))
for dtype in (torch.int32, torch.int64, torch.uint8):
    for op in (OPS.BAND, OPS.BOR, OPS.BXOR):
        same(f"all_reduce {dtype} {op}", all_reduce(mine(dtype=dtype), op))
for dtype in (torch.bool, torch.int16):  # bps does not have these types
    fails_as_gloo(f"all_reduce {dtype}", all_reduce(mine(dtype=dtype), OPS.SUM))
same("all_reduce complex", all_reduce(torch.complex(mine(), mine(salt=1)), OPS.SUM))
same("all_reduce of nothing", all_reduce(torch.zeros(0), OPS.SUM))
same("all_reduce of a scalar", all_reduce(torch.tensor(float(RANK)), OPS.SUM))
same("all_reduce of 3 MB", all_reduce(mine((1 << 20,)), OPS.SUM))
same("all_reduce channels last", all_reduce(mine((2, 3, 4, 5)).to(memory_format=torch.channels_last), OPS.SUM))
sparse = torch.sparse_coo_tensor([[RANK, 9]], [1.0, 2.0], (10,))
same("all_reduce sparse", lambda group: [all_reduce(sparse, OPS.SUM)(group)[0].to_dense()])

average = mine()
dist.all_reduce(average, OPS.AVG)
total = mine()
dist.all_reduce(total, group=GLOO)
assert torch.allclose(average, total / SIZE), f"AVG gave {average}, not {total / SIZE}"
scaled = mine()
dist.all_reduce(scaled, dist._make_nccl_premul_sum(0.5))
assert torch.equal(scaled, total / 2), f"PREMUL_SUM gave {scaled}, not {total / 2}"
gaps = torch.zeros(4, 4)[:, ::2]
try:
    dist.all_reduce(gaps)
    raise AssertionError("an all_reduce of a tensor with gaps did not fail")
except RuntimeError as error:
    assert "contiguous()" in str(error), error


def coalesced(group):
    tensors = [mine(salt=1), mine((3,), salt=2), mine((20000,), salt=3)]
    dist.all_reduce_coalesced(tensors, group=group)
    return tensors


def manager(group):
    tensors = [mine(salt=i) for i in range(3)]
    with dist._coalescing_manager(group, async_ops=True) as work:
        for tensor in tensors:
            dist.all_reduce(tensor, group=group)
    work.wait()
    return tensors


def broadcast(group):
    tensor = mine()
    dist.broadcast(tensor, 1, group=group)
    return [tensor]


def reduce(group):
    tensor = mine()
    dist.reduce(tensor, 1, group=group)
    return [tensor if RANK == 1 else torch.zeros(1)]


def all_gather(group):
    outputs = [torch.zeros(5, 7) for _ in range(SIZE)]
    dist.all_gather(outputs, mine(), group=group)
    return outputs


def all_gather_into_tensor(group):
    output = torch.zeros(SIZE * 5, 7)
    dist.all_gather_into_tensor(output, mine(), group=group)
    return [output]


def all_gather_object(group):
    objects = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK, "text": "x" * RANK}, group=group)
    return objects


def gather(group):
    outputs = [torch.zeros(5, 7) for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(mine(), outputs, 0, group=group)
    return outputs or []


def gather_object(group):
    objects = [None] * SIZE if RANK == 0 else None
    dist.gather_object(("from", RANK), objects, 0, group=group)
    return objects or []


def scatter(group):
    output = torch.zeros(5, 7)
    dist.scatter(output, [mine(salt=i) for i in range(SIZE)] if RANK == 1 else None, 1, group=group)
    return [output]


def scatter_object_list(group):
    output = [None]
    dist.scatter_object_list(output, [f"to {i}" for i in range(SIZE)] if RANK == 0 else None, 0, group=group)
    return output


def broadcast_object_list(group):
    objects = [RANK, "same"]
    dist.broadcast_object_list(objects, 1, group=group)
    return objects


def reduce_scatter(group):
    output = torch.zeros(5, 7)
    dist.reduce_scatter(output, [mine(salt=i) for i in range(SIZE)], group=group)
    return [output]


def reduce_scatter_tensor(group):
    output = torch.zeros(5, 7)
    dist.reduce_scatter_tensor(output, mine((SIZE * 5, 7)), group=group)
    return [output]


def all_to_all_single(group):
    output = torch.zeros(SIZE, 3)
    dist.all_to_all_single(output, mine((SIZE, 3)), group=group)
    return [output]


def all_to_all(group):
    outputs = [torch.zeros(5, 7) for _ in range(SIZE)]
    dist.all_to_all(outputs, [mine(salt=i) for i in range(SIZE)], group=group)
    return outputs


def send_recv(group):
    output = torch.zeros(5, 7)
    works = [dist.isend(mine(), (RANK + 1) % SIZE, group=group), dist.irecv(output, (RANK - 1) % SIZE, group=group)]
    for work in works:
        work.wait()
    return [output]


def recv_any_source(group):
    output = torch.zeros(5, 7)
    work = dist.isend(mine(), (RANK + 1) % SIZE, group=group)
    source = dist.recv(output, group=group)
    work.wait()
    return [output, source]


def batch(group):
    output = torch.zeros(5, 7)
    calls = [dist.P2POp(dist.isend, mine(), (RANK + 1) % SIZE, group=group),
             dist.P2POp(dist.irecv, output, (RANK - 1) % SIZE, group=group)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    return [output]


def barriers(group):
    dist.barrier(group=group)
    dist.monitored_barrier(group=group)
    return []


for collective in (coalesced, manager, broadcast, reduce, all_gather, all_gather_into_tensor, all_gather_object, gather,
                   gather_object, scatter, scatter_object_list, broadcast_object_list, send_recv, recv_any_source, batch,
                   barriers):
    same(collective.__name__, collective)


def comparable(collective):
    """Some versions of Gloo do not have all of these."""
    def run(group):
        collective(group)
    fails_as_gloo(collective.__name__, run)
    try:
        collective(GLOO)
    except Exception:  # noqa: BLE001: Gloo does not have it
        return
    same(collective.__name__, collective)


for collective in (reduce_scatter, reduce_scatter_tensor, all_to_all_single, all_to_all):
    comparable(collective)

# Asynchronous calls, futures, several groups.
works = []
tensors = [torch.full((1000 * (i % 7) + 1,), float(RANK + i)) for i in range(50)]
for tensor in tensors:
    works.append(dist.all_reduce(tensor, async_op=True))
for index, (work, tensor) in enumerate(zip(works, tensors)):
    if index % 3 == 0:
        value = work.get_future().then(lambda done: done.value()[0] + 1).wait()
        assert torch.equal(value, tensor + 1)
    else:
        work.wait()
    assert work.is_completed() and work.is_success()
    assert torch.all(tensor == SIZE * (SIZE - 1) / 2 + SIZE * index), (index, tensor)
pairs = [dist.new_group([a, a + 1]) for a in range(0, SIZE - 1, 2)]
if RANK // 2 < len(pairs):
    tensor = torch.tensor([float(RANK)])
    dist.all_reduce(tensor, group=pairs[RANK // 2])
    assert tensor.item() == 2 * (RANK // 2 * 2) + 1
again = torch.ones(4)
first, second = dist.all_reduce(again, async_op=True), dist.all_reduce(again, async_op=True)
first.wait()
second.wait()
assert torch.all(again == SIZE * SIZE), again

if RANK == 0:
    print(f"{checked} collectives compared")
dist.destroy_process_group()

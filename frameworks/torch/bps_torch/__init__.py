"""PyTorch's process group backend "bps": all-reduce with summation servers.

    import torch.distributed as dist
    dist.init_process_group("bps")

All-reduces go to bps; all other collectives go to Gloo. PyTorch loads this package by itself (entry point
"torch.backends"), so a script needs no import. The servers are in BPS_SERVERS, and their key is in BPS_KEY_FILE.
"""

import atexit
import functools
import json

import torch
import torch.distributed as dist

from .async_optimizer import AsyncOptimizer
from .reducer import Reducer

__version__ = "0.1.0"
__all__ = ["AsyncOptimizer", "Reducer", "describe"]


@functools.cache
def _extension():
    """Loads the C++ part. Only a process that uses bps loads it."""
    try:
        from . import _C
    except ImportError as error:
        raise ImportError(
            f"bps_torch cannot be loaded: {error}. It works only with the version of PyTorch for which it was built; "
            "build it again: pip install --no-build-isolation --force-reinstall --no-deps frameworks/torch"
        ) from error
    built, running = _C.torch_version.split("+")[0], torch.__version__.split("+")[0]
    if built != running:
        raise ImportError(
            f"bps_torch was built for PyTorch {built}, but this is PyTorch {running}. Build it again: "
            "pip install --no-build-isolation --force-reinstall --no-deps frameworks/torch"
        )
    atexit.register(_C.shutdown_all)  # for programs that do not call destroy_process_group()
    return _C


def _create(options, _backend_options=None):
    """Makes the backend of one process group. PyTorch calls this function on every rank of the group."""
    extension = _extension()
    # The store may outlive the group: torchrun keeps it while the ranks end a group and make another. So each start has
    # keys of its own.
    start = (options.store.add("starts", 1) - 1) // options.group_size
    store = dist.PrefixStore(f"start{start}", options.store)
    gloo = dist.ProcessGroupGloo(
        dist.PrefixStore("gloo", store), options.group_rank, options.group_size, timeout=options.timeout
    )
    backend = extension.create(dist.PrefixStore("bps", store), gloo, options.group_id, options.timeout)
    # The first group starts bps now, so that a wrong setting fails here. The others start bps when they first need it,
    # because many groups never all-reduce. With GPUs all groups do so, because the program may not have chosen its GPU yet.
    if not dist.is_initialized() and not torch.cuda.is_available():
        extension.connect(backend)
    return backend


def describe(group=None):
    """Returns facts about a process group of backend bps: servers, shares, transport (see bpsCommDescribe).

    `group` is a process group, by default the default one. All ranks of the group must call this function, if the
    group has not all-reduced before.
    """
    group = group or dist.group.WORLD
    return json.loads(_extension().describe(_backend_of(group)))


def _backend_of(group):
    backend = group._get_backend(torch.device("cpu"))
    return getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL wraps backends


if dist.is_available() and not hasattr(dist.Backend, "BPS"):
    dist.Backend.register_backend("bps", _create, extended_api=True, devices=["cpu", "cuda"])

"""The command line of ddp_bench, checked before anything is started."""
import argparse
import os
import subprocess

from cluster import options as cluster_options
from cluster.options import Parser, check_written, counts, integer_between, milliseconds, rate

BACKENDS = ("gloo", "bps", "mpi")
MODELS = {"resnet": 45, "transformer": 25, "vgg": 50}  # with the usual size in megabytes
LIST_LIMIT = 16
PROBE = """
import importlib.util, torch, torch.distributed as dist
print(torch.__version__, dist.is_available() and dist.is_gloo_available(), dist.is_available() and dist.is_mpi_available(),
      hasattr(dist.Backend, "BPS"))
"""


def numbers(least, most, kind=int):
    """'1,2,4' as [1, 2, 4]."""
    def parse(text):
        values = []
        for part in text.split(","):
            try:
                value = kind(part)
            except ValueError:
                value = None
            if value is None or not least <= value <= most:
                what = "whole number" if kind is int else "number"
                raise argparse.ArgumentTypeError(f"'{part}' is not a {what} from {least:g} to {most:g}")
            if value not in values:
                values.append(value)
        if len(values) > LIST_LIMIT:
            raise argparse.ArgumentTypeError(f"'{text}' has more than {LIST_LIMIT} values")
        return values

    return parse


def number_between(least, most):
    def parse(text):
        values = numbers(least, most, float)(text)
        if len(values) != 1:
            raise argparse.ArgumentTypeError(f"'{text}' is not one number")
        return values[0]

    return parse


def backends(text):
    names = text.split(",")
    for name in names:
        if name not in BACKENDS:
            raise argparse.ArgumentTypeError(f"'{name}' is not a backend ({', '.join(BACKENDS)})")
    return [name for name in BACKENDS if name in names]


def picture(text):
    if not text.endswith((".png", ".svg")):
        raise argparse.ArgumentTypeError(f"'{text}' does not end in .png or .svg")
    return text


def describe(parser):
    add = parser.add_argument
    add("--model", choices=MODELS, default="transformer", help="network to train (default transformer)")
    add("--size", dest="megabytes", metavar="MB", type=number_between(1, 200),
        help=f"megabytes of parameters, about (default: {', '.join(f'{name} {size}' for name, size in MODELS.items())})")
    add("--batch", metavar="B", type=integer_between(2, 1024), default=2,
        help="samples per rank and batch; a larger batch means more computation (default 2)")
    add("--accelerator", metavar="MS", type=milliseconds(0.1, 100000), default=0,
        help="each batch takes so many milliseconds more, in which the CPU is idle: stands for an accelerator that computes "
        "(default: none)")
    add("-n", dest="workers", metavar="N", type=integer_between(2, 16), help="worker machines, one rank each (default 4)")
    add("-k", dest="servers", metavar="LIST", type=counts, help="numbers of servers with bps: 0,2,4 (default)")
    add("-r", dest="rate", metavar="RATE", type=rate, default=200_000_000,
        help="rate of every link each way: 200M (default), 1G")
    add("--backends", metavar="LIST", type=backends, default=list(BACKENDS), help="of gloo, bps, mpi (default: all)")
    add("--bucket-mb", metavar="LIST", type=numbers(0.01, 1000, float), default=[25.0],
        help="sizes of DDP's buckets in MiB: 1,5,25 (default 25, as DDP)")
    add("--no-sync", dest="accumulate", metavar="LIST", type=numbers(1, 64), default=[1],
        help="batches between two all-reduces, as with DDP's no_sync(): 1,2,4,8 (default 1)")
    add("--round-robin", dest="groups", metavar="LIST", type=numbers(1, 8), default=[None],
        help="numbers of process groups that take the buckets in turn, in a communication hook: 1,3 (default: no hook)")
    add("--iters", metavar="I", type=integer_between(1, 1000), help="timed iterations of each turn (default 5)")
    add("--turns", metavar="T", type=integer_between(1, 100),
        help="how often all backends run, one after the other; the medians are of all turns (default 1)")
    add("--tolerance", metavar="X", type=number_between(1e-9, 1), default=1e-3,
        help="relative difference between the losses of two backends that is an error (default 0.001)")
    add("--quick", action="store_true", help="a small model, few iterations and 2 workers, unless given: for tests")
    add("--json", metavar="FILE", help="write all that was measured, in bytes and seconds")
    add("--plot", metavar="FILE", type=picture, help="draw the table (.png or .svg); needs matplotlib")
    add("--build", metavar="DIR", help="where bin/bps-server is (default: this repository's build)")


def parse(arguments):
    parser = Parser(prog="ddp_bench", description="Trains a network with PyTorch's DistributedDataParallel on an "
                    "emulated cluster, and compares backends. docs/emulated-cluster.md says how to read the table.")
    describe(parser)
    options = parser.parse_args(arguments)
    usual = {"workers": 2, "servers": [0, 1], "iters": 3, "megabytes": 2} if options.quick else {}
    usual = {"workers": 4, "servers": [0, 2, 4], "iters": 5, "turns": 1, "megabytes": MODELS[options.model], **usual}
    for name, value in usual.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    for name in ("plot", "json"):
        check_written(getattr(options, name), name, parser)
    options.build = options.build or cluster_options.default_build()
    if not os.access(os.path.join(options.build, "bin", "bps-server"), os.X_OK):
        parser.error(f"{options.build}/bin/bps-server is not there: run make all, or name the directory with --build")
    # The rest is what cluster.job and cluster.network need.
    options.nics, options.unequal, options.burst, options.congestion = [1], None, None, None
    return options


def run_python(python, code, limit=120):
    try:
        return subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=limit, start_new_session=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess([], 1, "", str(error))


class Torch:
    """A Python that has PyTorch."""

    def __init__(self, python, version, gloo, mpi, bps):
        self.python, self.version = python, version
        self.has = {"gloo": gloo == "True", "mpi": mpi == "True", "bps": bps == "True"}


def find_torch(build):
    """The first Python with PyTorch, or the reason why there is none, as text."""
    chosen = os.environ.get("BPS_TORCH_PYTHON")
    pythons = [chosen] if chosen else [os.path.join(build, "torch", "venv", "bin", "python"), "python3"]
    for python in pythons:
        done = run_python(python, PROBE)
        if done.returncode == 0:
            return Torch(python, *done.stdout.split())
    why = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return f"no torch: {', '.join(pythons)}: {why}; set BPS_TORCH_PYTHON"

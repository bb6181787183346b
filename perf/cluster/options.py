"""The command line of emulated_cluster, checked before anything is started."""
import argparse
import math
import os
import re
import sys

from cluster import chart, delay_line
from cluster.network import QUEUE_SECONDS, congestion_controls


def version():
    """The version in include/bps/bps.h."""
    header = os.path.join(os.path.dirname(__file__), "..", "..", "include", "bps", "bps.h")
    with open(header, encoding="utf-8") as file:
        return ".".join(re.findall(r"^#define BPS_(?:MAJOR|MINOR|PATCH) (\d+)$", file.read(), re.M))


class Parser(argparse.ArgumentParser):
    def __init__(self, **arguments):
        super().__init__(**arguments)
        self.add_argument("--version", action="version", version=f"{self.prog} {version()}")

    def error(self, message):
        """Prints one line on stderr and exits with the status for wrong usage."""
        print(f"{self.prog}: {message} (see --help)", file=sys.stderr)
        sys.exit(2)


def scaled(text, letters, base):
    """'1.5M' as a number; None if it is not a number."""
    factor = 1
    if text and text[-1].upper() in letters:
        factor = base ** (letters.index(text[-1].upper()) + 1)
        text = text[:-1]
    try:
        value = float(text)
    except ValueError:
        return None
    return value * factor if math.isfinite(value) and value > 0 else None


def rate(text):
    bits = scaled(text, "KMG", 1000)
    if bits is None or not 1e6 <= bits <= 1e11:
        raise argparse.ArgumentTypeError(f"'{text}' is not a rate from 1M to 100G (bit/s, as 200M or 1G)")
    return round(bits)


def sizes(text):
    values = []
    for part in text.split(","):
        value = scaled(part, "KMG", 1024)
        if value is None or value != int(value) or value % 4 != 0:
            raise argparse.ArgumentTypeError(f"'{part}' is not a size in bytes, a multiple of 4 (as 64M or 4096)")
        values.append(int(value))
    return values


def counts(text):
    """'0,2-4' as [0, 2, 3, 4]."""
    values = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            low, high = 1, 0
        if not 0 <= low <= high <= 100:
            raise argparse.ArgumentTypeError(f"'{part}' is not a number of servers from 0 to 100 (as 0,1,4 or 0-4)")
        values += range(low, high + 1)
    return sorted(set(values))


def integer_between(least, most):
    def parse(text):
        if not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {least} to {most}")
        return int(text)

    return parse


def milliseconds(least, most):
    def parse(text):
        value = scaled(text, "", 1)
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not a time from {least:g} to {most:g} (ms, as 0.5)")
        return value / 1000

    return parse


def comma_separated(text):
    """'1,0.5' as [1, 0.5]."""
    values = [scaled(value, "", 1) for value in text.split(",")]
    if None in values or any(value > 1 for value in values) or len(values) > 8:
        raise argparse.ArgumentTypeError(f"'{text}' is not 1 to 8 parts of the rate above 0 and up to 1 (as 1,0.5)")
    return values


DEFAULT_FRACTIONS = ([], [0.25])  # check_fractions() adds the last worker, when the number of workers is known


def fractions(text):
    """'1,0.7/0.25' as ([1, 0.7], [0.25])."""
    lists = []
    for part in (text + "/").split("/")[:2]:
        values = [scaled(value, "", 1) for value in part.split(",")] if part else []
        if None in values or any(value > 1 for value in values) or text.count("/") > 1:
            raise argparse.ArgumentTypeError(f"'{text}' is not parts of the rate above 0 and up to 1, workers/servers: "
                                             "1,1,0.7/0.25")
        lists.append(values)
    return tuple(lists)


def check_fractions(options, parser):
    if options.unequal is DEFAULT_FRACTIONS:
        options.unequal = ([1] * (options.workers - 1) + [0.5], [0.25])
    workers, servers = options.unequal
    if len(workers) > options.workers:
        parser.error(f"--unequal: {len(workers)} workers' parts are given for {options.workers} workers")
    servers += [1] * (max(options.servers) - len(servers))
    options.unequal = (workers + [1] * (options.workers - len(workers)), servers[:max(options.servers)])
    if min(map(min, filter(None, options.unequal))) * options.rate < 1e6:
        parser.error("--unequal: a link would have less than 1 Mbit/s")


def bcube(text):
    """'3,2' as (3, 2)."""
    parts = text.split(",")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"'{text}' is not N,K (as 3,2)")
    n, k = map(int, parts)
    if n < 2 or not 1 <= k <= 6 or n ** k > 100:
        raise argparse.ArgumentTypeError(f"'{text}': N must be at least 2, K 1 to 6, and N^K at most 100")
    return n, k


def check_bcube(options, parser):
    """-n and -k, or --bcube, which cannot have some of the other options."""
    given = [name for name in ("workers", "servers") if getattr(options, name) is not None]
    if options.bcube is None:
        if len(given) < 2:
            parser.error("give -n N and -k LIST, or --bcube N,K")
        for name in ("address_file", "control_network", "one_nic"):
            if getattr(options, name):
                parser.error(f"--{name.replace('_', '-')} needs --bcube")
        return
    for name, flag in (("workers", "-n"), ("servers", "-k"), ("unequal", "--unequal"), ("rtt", "--rtt"),
                       ("timeline", "--timeline"), ("plot", "--plot")):
        if getattr(options, name) is not None:
            parser.error(f"--bcube and {flag} exclude each other")
    if options.nics != [1]:
        parser.error("--bcube and --nics exclude each other")
    options.workers, options.servers = options.bcube[0] ** options.bcube[1], [0]


def picture_path(text):
    if not text.endswith((".svg", ".png")):
        raise argparse.ArgumentTypeError(f"'{text}' ends with neither .svg nor .png")
    if not chart.can_draw(text):
        raise argparse.ArgumentTypeError(f"'{text}' needs matplotlib, which {sys.executable} does not have; .svg does not")
    return text


def check_written(path, name, parser):
    folder = os.path.dirname(os.path.abspath(path)) if path else None
    if folder and not os.access(folder, os.W_OK):
        parser.error(f"--{name} {path}: {folder} is not a directory that can be written")


def default_build():
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.join(os.path.dirname(os.path.dirname(here)), "build")


def describe(parser):
    add = parser.add_argument
    add("-n", dest="workers", metavar="N", type=integer_between(2, 100), help="worker machines")
    add("-k", dest="servers", metavar="LIST", type=counts, help="numbers of servers: 0,1,4 or 0-4")
    add("--bcube", metavar="N,K", type=bcube, help="N^K workers on a BCube(N,K), with a NIC for each of the K levels, "
        "in place of -n and -k (docs/bcube.md)")
    add("--address-file", action="store_true", help="--bcube: describe the addresses in a file")
    add("--control-network", action="store_true", help="--bcube: a network of its own for the control connections, in "
        "place of relays; implies --address-file")
    add("--one-nic", action="store_true", help="--bcube: measure the same workers with one NIC on one switch too")
    add("-r", dest="rate", metavar="RATE", type=rate, required=True, help="rate of every link each way: 200M, 1G")
    add("-b", dest="bytes", metavar="BYTES", type=sizes, help="sizes of the all-reduce: 64M,8M,1M")
    add("--model", metavar="NAME", help="all-reduce the gradients of a network, as bps-perf --model")
    add("--iters", metavar="I", type=integer_between(5, 10000), help="timed iterations (default: two seconds of them, 5 to 40)")
    add("--unequal", metavar="W,W.../S,S...", type=fractions, nargs="?", const=DEFAULT_FRACTIONS,
        help="links that have a part of the rate, of the first workers and servers: 1,1,0.7/0.25; without a value the "
        "last worker has half of it, the first server a quarter")
    add("--nics", metavar="W,W...", type=comma_separated, default=[1],
        help="a NIC for each of these parts of the rate in every worker, and as many ranks: 1,0.5 (default: 1)")
    add("--rtt", metavar="MS", type=milliseconds(0.01, 1000), help="round-trip time between machines (default: none)")
    add("--queue", metavar="MS", type=milliseconds(0.1, 10000), default=QUEUE_SECONDS,
        help=f"the longest time that a packet waits at either end of a link (default {QUEUE_SECONDS * 1000:g})")
    add("--plot", metavar="FILE", type=picture_path, help="draw bandwidth over k, measured and ideal: an SVG, or "
        "a PNG with matplotlib")
    add("--json", metavar="FILE", help="write all that was measured")
    add("--timeline", metavar="FILE", help="write a Chrome trace of the last two timed calls: what each NIC carried, and "
        "what it waited for; needs -b with one size and -k with one number")
    add("--congestion", metavar="NAME", help="TCP congestion control (default cubic, where the kernel has it)")
    add("--burst", metavar="BYTES", type=integer_between(1600, 10**9), help="bucket of the shaper (default 16000)")
    add("--build", metavar="DIR", default=None, help="where bin/bps-perf is (default: this repository's build)")


def parse(arguments):
    parser = Parser(
        prog="emulated_cluster",
        description="Runs bps-server and bps-perf on an emulated cluster: network namespaces on one bridge, every link "
        "limited both ways. Prints time against the ideal, one row for each number of servers. "
        "docs/emulated-cluster.md says how to read it.",
    )
    describe(parser)
    options = parser.parse_args(arguments)
    check_bcube(options, parser)
    if (options.bytes is None) == (options.model is None):
        parser.error("give either -b BYTES or --model NAME")
    if options.unequal:
        check_fractions(options, parser)
    if min(options.nics) * options.rate < 1e6:
        parser.error("--nics: a link would have less than 1 Mbit/s")
    if options.timeline and (len(options.bytes or []) != 1 or len(options.servers) != 1):
        parser.error("--timeline needs -b with one size and -k with one number of servers")
    for name in ("plot", "json", "timeline"):
        check_written(getattr(options, name), name, parser)
    if options.congestion and options.congestion not in congestion_controls():
        parser.error(f"--congestion {options.congestion}: this kernel has {', '.join(congestion_controls())}")
    if options.build is None:
        options.build = default_build()
    for name in ("bps-perf", "bps-server", "bps-topo"):
        if not os.access(os.path.join(options.build, "bin", name), os.X_OK):
            parser.error(f"{options.build}/bin/{name} is not there: run make all, or name the directory with --build")
    if options.rtt and not os.access(delay_line.program(options.build), os.X_OK):
        parser.error(f"--rtt: {delay_line.program(options.build)} is not there: run make all")
    return options

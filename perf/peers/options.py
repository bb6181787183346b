"""The command line of compare_peers, checked before anything is started."""
import argparse
import os

from cluster import options as common
from peers.candidates import PEERS

SIZES = {"loopback": "8,1K,16K,256K,4M,64M", "cluster": "16K,64K,256K,1M,4M"}
WAYS = ("tcp", "shm")


def words_of(known, what):
    def parse(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"'{word}' is not {what}: {', '.join(known)}")
        return words

    return parse


def seconds(text):
    value = common.scaled(text, "", 1)
    if value is None or value > 60:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds above 0 and up to 60")
    return value


def describe(parser):
    add = parser.add_argument
    add("--loopback", metavar="WAYS", nargs="?", const=list(WAYS), type=words_of(WAYS, "a way between processes"),
        help="on this machine, no links limited: tcp, shm (shared memory) or both, which is the default")
    add("--cluster", action="store_true", help="on an emulated cluster (needs root)")
    add("-n", dest="workers", metavar="N", type=common.integer_between(2, 100), default=4, help="ranks (default 4)")
    add("-k", dest="servers", metavar="LIST", type=common.counts, help="--cluster: servers of bps: 0,1,4 (default 0)")
    add("-r", dest="rate", metavar="RATE", type=common.rate, help="--cluster: rate of the links (default 200M)")
    add("--burst", metavar="BYTES", type=common.integer_between(1600, 10**9), help="--cluster: bucket of the shaper (default 16000)")
    add("--sizes", metavar="BYTES", type=common.sizes, help="sizes of the all-reduce: 8,64K,1M (default: loopback "
        f"{SIZES['loopback']}, cluster {SIZES['cluster']})")
    add("--repeat", metavar="R", type=common.integer_between(5, 1000), default=5, help="runs of each candidate (default 5)")
    add("--seconds", metavar="S", type=seconds, default=0.05, help="spent on each size in a run (default 0.05; never "
        "less than 5 calls)")
    add("--peers", metavar="LIST", type=words_of(tuple(PEERS), "a peer"), default=list(PEERS),
        help=f"compare with these only: {','.join(PEERS)}")
    add("--json", metavar="FILE", help="write all that was measured")
    add("--build", metavar="DIR", help="where peers/bps and the other drivers are (default: this repository's build)")


def parse(arguments):
    parser = common.Parser(
        prog="compare_peers",
        description="Runs the same all-reduces (f32, sum, each waited for) with bps, Open MPI and Gloo, in turns, and "
        "prints times and ratios. `make peers` builds the drivers of those that are installed. docs/compare-peers.md "
        "says how to read it.",
        epilog="exit status: 0; 1 a candidate failed; 2 wrong usage; 77 no peer is there, or no namespaces can be made; "
        "128 + signal",
    )
    describe(parser)
    options = parser.parse_args(arguments)
    if bool(options.loopback) == options.cluster:
        parser.error("give either --loopback or --cluster")
    for name, value in (("-k", options.servers), ("-r", options.rate), ("--burst", options.burst)):
        if value is not None and not options.cluster:
            parser.error(f"{name} is for --cluster")
    options.servers = options.servers or [0]
    options.rate = options.rate or 200_000_000
    options.unequal = None  # all links of the cluster have the same rate
    options.sizes = options.sizes or common.sizes(SIZES["cluster" if options.cluster else "loopback"])
    common.check_written(options.json, "json", parser)
    options.build = options.build or common.default_build()
    if not os.access(os.path.join(options.build, "peers", "bps"), os.X_OK):
        parser.error(f"{options.build}/peers/bps is not there: run make peers, or name the directory with --build")
    return options

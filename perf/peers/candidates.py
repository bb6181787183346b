"""The candidates: bps with each number of servers, and each peer with each of its algorithms."""
import os
import shutil
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class ComparedLibrary:
    title: str
    packages: str  # names of Debian packages
    programs: list  # programs that the library's driver needs
    algorithms: list
    shared_memory: bool  # whether it has a way through shared memory
    start: object = field(repr=False)  # takes (place, words of the driver, algorithm), returns rank 0's output


# Numbers of algorithms in Open MPI's setting coll_tuned_allreduce_algorithm. With None, Open MPI
# chooses.
OPEN_MPI = {"default": None, "recursive_doubling": 3, "ring": 4, "segmented_ring": 5, "rabenseifner": 6}
GLOO = ["ring", "bcube", "ring_chunked", "halving_doubling", "halving_doubling_poll"]
# Gloo's polled sockets write everything before they read. If the data exceeds the sockets' buffers,
# two ranks deadlock.
LARGEST = {"halving_doubling_poll": 1 << 20}


def start_open_mpi(place, words, algorithm):
    # Disable binding, because mpirun would bind the ranks of all emulated machines to the same
    # core.
    settings = ["mpirun", "-n", str(place.ranks), "--allow-run-as-root", "--bind-to", "none"]
    settings += ["--mca", "pml", "ob1"] + place.mpirun()
    if place.ranks > os.cpu_count():  # waiting ranks must yield; mpirun cannot know that its hosts share CPUs
        settings += ["--mca", "mpi_yield_when_idle", "1"]
    if OPEN_MPI[algorithm] is not None:
        settings += ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm",
                     str(OPEN_MPI[algorithm])]
    return place.run([("mpirun", place.host(0), settings + words, {"COMPARE_PEERS_TAG": place.tag})])


def start_gloo(place, words, algorithm):
    store = place.fresh("gloo")
    return place.run([(f"gloo{rank}", place.host(rank),
                       words + [str(rank), str(place.ranks), store, place.interface, algorithm], {})
                      for rank in range(place.ranks)])


PEERS = {"open_mpi": ComparedLibrary("Open MPI", "openmpi-bin libopenmpi-dev", ["mpirun"], list(OPEN_MPI), True, start_open_mpi),
         "gloo": ComparedLibrary("Gloo", "libgloo-dev", [], GLOO, False, start_gloo)}


def driver(options, name):
    return os.path.join(options.build, "peers", name)


def missing(options, name):
    """Why a peer cannot be compared with, or None."""
    lacking = [program for program in PEERS[name].programs if shutil.which(program) is None]
    if not os.access(driver(options, name), os.X_OK):
        lacking.append(driver(options, name))
    if not lacking:
        return None
    return f"{PEERS[name].title}: there is no {' and no '.join(lacking)} (Debian: {PEERS[name].packages}; then make peers)"


class Candidate:
    def __init__(self, name, algorithm, servers=None):
        self.name = name  # "bps", or the name of a peer
        self.algorithm = algorithm
        self.servers = servers
        self.micros = {}  # by size in bytes: the medians of the runs
        self.failure = None

    def title(self):
        return f"{'bps' if self.name == 'bps' else PEERS[self.name].title} {self.algorithm}"

    def sizes(self, options):
        return [count for count in options.sizes if count <= LARGEST.get(self.algorithm, count)]

    def start(self, place, options):
        words = [driver(options, self.name), ",".join(map(str, self.sizes(options))), f"{options.seconds:g}"]
        if self.name == "bps":
            return place.bps(words, self.servers)
        return PEERS[self.name].start(place, words, self.algorithm)


def all_of(options, names, shared_memory):
    own = [Candidate("bps", f"k={k}", k) for k in options.servers]
    others = [Candidate(name, algorithm) for name in names if PEERS[name].shared_memory or not shared_memory
              for algorithm in PEERS[name].algorithms]
    return own + [each for each in others if each.sizes(options)]

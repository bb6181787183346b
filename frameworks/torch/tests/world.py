"""Starts ranks and summation servers on this machine, for the tests. Ends all that it started."""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("BPS_TEST_BUILD", HERE.parents[2] / "build"))
EXAMPLES = HERE.parents[2] / "examples"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Rank:
    """One process; its output goes to a file."""

    def __init__(self, command, env, path):
        self.path = path
        with open(path, "w") as output:
            self.process = subprocess.Popen(command, env=env, stdout=output, stderr=subprocess.STDOUT)

    def text(self):
        return self.path.read_text(errors="replace")

    def wait_for(self, text, seconds=60):
        end = time.monotonic() + seconds
        while True:
            ended = time.monotonic() > end or self.process.poll() is not None
            if text in self.text():
                return
            if ended:
                raise AssertionError(f"no {text!r} in:\n{self.text()}")
            time.sleep(0.02)


class World:
    """n ranks, each its own machine, and k servers. Use it in a with statement."""

    def __init__(self, ranks=4, servers=0, **env):
        self.ranks, self.folder = ranks, pathlib.Path(tempfile.mkdtemp(prefix="bps-torch-test-"))
        self.processes, self.servers = [], []
        self.port = None  # of the ranks' store; None: a free one
        key = self.folder / "key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o600)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("BPS_", "NCCL_"))}
        self.env.update(BPS_KEY_FILE=str(key), BPS_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1",
                        NCCL_IB_DISABLE="1", PYTHONUNBUFFERED="1", PYTHONPATH=str(HERE))
        self.env.update(env)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            addresses = [self.start_server(index) for index in range(servers)]
            undo.pop_all()
        if addresses:
            self.env["BPS_SERVERS"] = ",".join(addresses)

    def start_server(self, index):
        server = Rank([str(BUILD / "bin/bps-server"), "--listen", "127.0.0.1:0"], self.env, self.folder / f"server{index}")
        self.processes.append(server.process)
        self.servers.append(server.process)
        server.wait_for("listening on ", 20)
        return server.text().split("listening on ")[1].split()[0]

    def start(self, program, *arguments, ranks=None):
        """Starts the ranks of a program. Returns them."""
        port, size = self.port or free_port(), ranks or self.ranks
        started = []
        for rank in range(size):
            env = dict(self.env, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                       MASTER_PORT=str(port))
            if "BPS_HOSTID" not in self.env:
                env["BPS_HOSTID"] = f"machine{rank}"
            command = [sys.executable, str(program), *map(str, arguments)]
            started.append(Rank(command, env, self.folder / f"rank{rank}-{len(self.processes)}"))
            self.processes.append(started[-1].process)
        return started

    def run(self, program, *arguments, seconds=120):
        """Runs a program on all ranks. Returns rank 0's output. Raises if a rank fails or is late."""
        ranks = self.start(program, *arguments)
        end = time.monotonic() + seconds
        for number, rank in enumerate(ranks):
            try:
                status = rank.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                status = f"none after {seconds} s"
            if status != 0:
                raise AssertionError(f"rank {number}: status {status}\n{rank.text()[-3000:]}")
        return ranks[0].text()

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

"""The places where ranks run: this machine as it is, or an emulated cluster."""
import os
import socket
import tempfile

from cluster.job import Job, write_key
from cluster.network import Network, read
from cluster.processes import wait_for_success
from peers.candidates import HERE

LIMIT_SECONDS = 240  # for one run of one candidate


class Place:
    def __init__(self, options, tag, processes):
        self.ranks = options.workers
        self.tag = tag
        self.processes = processes

    def fresh(self, name):
        """A new directory, which the run removes at its end."""
        return tempfile.mkdtemp(prefix=name + "-", dir=self.processes.folder)

    def run(self, starts):
        """Starts each (name, namespace, words, environment) and returns the output of the first."""
        children = [self.processes.start(name, namespace, words, {**os.environ, **more})
                    for name, namespace, words, more in starts]
        wait_for_success(children, LIMIT_SECONDS)
        self.processes.end()
        return read(children[0].out)


class Loopback(Place):
    interface = "lo"

    def __init__(self, options, tag, processes, shared_memory):
        super().__init__(options, tag, processes)
        self.shared_memory = shared_memory
        self.key = os.path.join(processes.folder, "key")
        write_key(self.key)
        self.title = f"{self.ranks} ranks on one machine, " + ("shared memory" if shared_memory else "TCP")

    def host(self, rank):
        return None

    def mpirun(self):
        if self.shared_memory:
            return ["--oversubscribe", "--mca", "btl", "^tcp"]
        return ["--oversubscribe", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]

    def bps(self, words, servers):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            root = f"127.0.0.1:{listener.getsockname()[1]}"
        common = {"BPS_SOCKET_IFNAME": "lo", "BPS_KEY_FILE": self.key, "BPS_ROOT": root, "BPS_NRANKS": str(self.ranks)}
        apart = [{"NCCL_SHM_DISABLE": "1", "BPS_HOSTID": f"machine{rank}"} for rank in range(self.ranks)]
        return self.run([(f"bps{rank}", None, words, {**common, "BPS_RANK": str(rank),
                                                      **({} if self.shared_memory else apart[rank])})
                         for rank in range(self.ranks)])


class Cluster(Place):
    interface = "eth0"

    def __init__(self, options, tag, processes):
        super().__init__(options, tag, processes)
        self.network = Network(tag, [[options.rate]] * (options.workers + max(options.servers)), options.burst)
        self.network.up()
        self.job = Job(options, self.network, processes)
        self.title = f"emulated cluster of {self.ranks} workers, links of {options.rate / 1e6:g} Mbit/s"
        if options.burst is not None:
            self.title += f", a bucket of {options.burst} bytes"

    def host(self, rank):
        return self.network.host(rank)

    def mpirun(self):
        hosts = ",".join(self.network.address(rank) for rank in range(self.ranks))
        return ["--host", hosts, "--mca", "plm_rsh_agent", os.path.join(HERE, "agent"), "--mca", "btl", "tcp,self",
                "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"]

    def bps(self, words, servers):
        return self.job.run(servers, words, LIMIT_SECONDS)["worker0"]

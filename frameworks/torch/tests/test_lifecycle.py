import datetime
import os
import unittest

import torch.distributed as dist
from world import HERE, World


class Lifecycle(unittest.TestCase):
    """How process groups begin and end, and what happens to their works."""

    def check(self, name, **env):
        with World(ranks=2, **env) as started:
            self.assertIn(f"{name} ok", started.run(HERE / "ranks/lifecycle.py", name, seconds=90))


def scenario(name, **env):
    setattr(Lifecycle, f"test_{name}", lambda self: self.check(name, **env))


for each in ("failed_coalesced_call", "nested_futures", "power_sgd", "dropped_works", "shorter_time_out",
             "shutdown_in_callback", "shutdown_with_works", "abort", "abort_while_starting", "missing_rank",
             "two_groups_in_threads", "exit_without_destroy", "exit_in_callback", "forked_child"):
    scenario(each)
scenario("debug_detail", TORCH_DISTRIBUTED_DEBUG="DETAIL")


class StoreOutlivesTheGroup(unittest.TestCase):
    """torchrun's agent keeps the store while the ranks end their group and make another."""

    def test_start_again(self):
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                              timeout=datetime.timedelta(seconds=30))
        with World(ranks=2, TORCHELASTIC_USE_AGENT_STORE="True") as started:
            started.port = store.port
            self.assertIn("start_again ok", started.run(HERE / "ranks/lifecycle.py", "start_again"))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    unittest.main()

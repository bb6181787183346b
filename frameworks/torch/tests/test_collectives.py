import unittest

from world import HERE, World


class Collectives(unittest.TestCase):
    """All collectives of torch.distributed give the same with backend bps as with Gloo."""

    def check(self, **world):
        with World(**world) as started:
            self.assertIn("collectives compared", started.run(HERE / "ranks/collectives.py"))

    def test_without_servers(self):
        self.check(ranks=4)

    def test_with_servers(self):
        self.check(ranks=4, servers=2)

    def test_three_ranks_on_one_machine(self):
        self.check(ranks=3, servers=1, BPS_HOSTID="one")


if __name__ == "__main__":
    unittest.main()

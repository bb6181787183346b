import unittest

from world import HERE, World


class Growth(unittest.TestCase):
    def test_1000_iterations_use_no_more_memory_descriptors_or_threads(self):
        with World(ranks=2, servers=1) as started:
            started.run(HERE / "ranks/growth.py")


if __name__ == "__main__":
    unittest.main()

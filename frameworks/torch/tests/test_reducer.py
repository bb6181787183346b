import unittest

from world import HERE, World


class Reducer(unittest.TestCase):
    def test_same_parameters_as_ddp(self):
        for servers in (0, 2):
            with self.subTest(servers=servers), World(servers=servers) as started:
                text = started.run(HERE / "ranks/reducer.py")
                for name in ("default", "small buckets", "gradients kept", "two communicators", "urgent", "accumulation"):
                    self.assertIn(f"{name} ok", text)


if __name__ == "__main__":
    unittest.main()

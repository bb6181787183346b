import os
import re
import signal
import unittest

from world import EXAMPLES, HERE, World


class Async(unittest.TestCase):
    """bps_torch.AsyncOptimizer."""

    def test_digits_are_learned_and_all_ranks_end_with_the_same_parameters(self):
        for staleness in ("", "0", "4"):
            env = {"BPS_STALENESS": staleness} if staleness else {}
            with self.subTest(staleness=staleness), World(ranks=3, servers=1, **env) as started:
                ranks = started.start(EXAMPLES / "async.py", "--steps", 200)
                ends = set()
                for rank in ranks:
                    self.assertEqual(rank.process.wait(120), 0, rank.text())
                    found = re.search(r"loss ([0-9.]+), accuracy ([0-9.]+), steps of the ranks (.*)", rank.text())
                    self.assertTrue(found, rank.text())
                    self.assertGreater(float(found[2]), 0.75)
                    self.assertEqual(found[3], "[200, 200, 200]")
                    ends.add(found[1])
                self.assertEqual(len(ends), 1, ends)

    def test_parameters_are_the_initial_ones_plus_all_changes(self):
        for servers in (0, 2):
            with self.subTest(servers=servers), World(ranks=3, servers=servers) as started:
                self.assertIn("all as expected", started.run(HERE / "ranks/changes.py"))

    def test_training_goes_on_when_ranks_are_killed(self):
        for victim in (0, 2):
            with self.subTest(victim=victim), World(ranks=3, servers=1, BPS_TIMEOUT="6") as started:
                ranks = started.start(EXAMPLES / "async.py", "--steps", 4000, "--every", 50)
                ranks[victim].wait_for("step 200:")
                os.kill(ranks[victim].process.pid, signal.SIGKILL)
                for number, rank in enumerate(ranks):
                    if number == victim:
                        continue
                    rank.wait_for("step 4000:", 60)
                    rank.wait_for("steps of the ranks", 20)
                    self.assertIn("is lost, and the training goes on without it", rank.text())

    def test_different_models_are_named_on_all_ranks(self):
        with World(ranks=3) as started:
            for rank in started.start(HERE / "ranks/changes.py", "different"):
                self.assertNotEqual(rank.process.wait(60), 0)
                self.assertRegex(rank.text(), r"ranks disagree: rank 0 .* key 0 with 12 float32, but rank 1 .* 13 float32")


if __name__ == "__main__":
    unittest.main()

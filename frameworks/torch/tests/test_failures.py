import os
import re
import signal
import unittest

from world import HERE, World


class Failures(unittest.TestCase):
    def test_killed_rank_is_named_on_all_others(self):
        for kind in ("call", "future"):
            with self.subTest(kind), World(servers=1, BPS_TIMEOUT="6") as started:
                ranks = started.start(HERE / "ranks/endless.py", kind, 0)
                ranks[2].wait_for("step 20")
                os.kill(ranks[2].process.pid, signal.SIGKILL)
                for number in (0, 1, 3):
                    ranks[number].wait_for("again: ", 20)
                    failed = re.search(r"failed after ([0-9.]+) s: DistBackendError: .*rank 2\b", ranks[number].text())
                    self.assertTrue(failed and float(failed[1]) < 7, ranks[number].text())

    def test_stopped_rank_is_named_within_the_time_limit(self):
        with World(BPS_TIMEOUT="4") as started:
            ranks = started.start(HERE / "ranks/endless.py", "call", 0)
            ranks[2].wait_for("step 20")
            os.kill(ranks[2].process.pid, signal.SIGSTOP)
            for number in (0, 1, 3):
                ranks[number].wait_for("again: ", 20)
                self.assertRegex(ranks[number].text(), r"DistBackendError: .*rank 2\b")

    def test_late_rank_ends_the_call_at_the_groups_time_out(self):
        with World() as started:
            ranks = started.start(HERE / "ranks/endless.py", "late", 2)
            for number in (0, 2, 3):
                ranks[number].wait_for("again: ", 30)
                failed = re.search(r"failed after ([0-9.]+) s: DistBackendError: (.*)", ranks[number].text())
                self.assertTrue(failed and 1 < float(failed[1]) < 6, ranks[number].text())
            texts = "".join(ranks[number].text() for number in (0, 2, 3))
            self.assertIn("is not complete after 2 s, the time-out of the process group", texts)

    def test_training_goes_on_when_a_server_is_killed(self):
        with World(servers=2, BPS_TIMEOUT="6") as started:
            ranks = started.start(HERE / "ranks/endless.py", "server", 0)
            ranks[0].wait_for("step 20")
            started.servers[0].kill()
            for rank in ranks:
                rank.wait_for("done")
                self.assertEqual(rank.process.wait(20), 0, rank.text())

    def test_wrong_server_fails_at_init(self):
        with World(ranks=2, BPS_SERVERS="127.0.0.1:9", BPS_TIMEOUT="2", BPS_REQUIRE_SERVERS="1") as started:
            for rank in started.start(HERE / "ranks/endless.py", "call", 0):
                self.assertNotEqual(rank.process.wait(60), 0)
                self.assertRegex(rank.text(), r"DistBackendError: .*127\.0\.0\.1:9")

    def test_missing_key_fails_at_init_on_all_ranks(self):
        with World(ranks=2, BPS_KEY_FILE="/nowhere/key", BPS_SERVERS="127.0.0.1:9") as started:
            for rank in started.start(HERE / "ranks/endless.py", "call", 0):
                self.assertNotEqual(rank.process.wait(60), 0)
                self.assertIn("/nowhere/key", rank.text())


if __name__ == "__main__":
    unittest.main()

import re
import unittest

from world import EXAMPLES, HERE, World


class Training(unittest.TestCase):
    def train(self, *arguments, **world):
        """Returns what examples/ddp.py prints: the losses, and a checksum of the parameters."""
        with World(**world) as started:
            text = started.run(EXAMPLES / "ddp.py", "--epochs", 2, *arguments)
        losses = [float(loss) for loss in re.findall(r"loss ([0-9.]+)", text)]
        same = re.search(r"parameters (\w+) on all 4 ranks", text)
        self.assertTrue(len(losses) == 2 and same, text)
        return losses, same[1]

    def test_unmodified_ddp_has_gloos_losses_and_the_same_bits_for_every_server_count(self):
        gloo, _ = self.train("--backend", "gloo")
        runs = {k: self.train("--backend", "bps", servers=k) for k in (0, 2, 4)}
        for losses, checksum in runs.values():
            self.assertEqual(checksum, runs[0][1])
            for one, other in zip(losses, gloo):
                self.assertAlmostEqual(one, other, delta=1e-3 * other)

    def test_no_sync_and_small_buckets(self):
        arguments = ("--accumulate", 2, "--bucket-mb", 0.05)
        gloo, _ = self.train("--backend", "gloo", *arguments)
        bps, _ = self.train("--backend", "bps", *arguments, servers=1)
        for one, other in zip(bps, gloo):
            self.assertAlmostEqual(one, other, delta=1e-3 * other)

    def test_fsdp_zero_and_communication_hooks(self):
        with World(servers=1) as started:
            text = started.run(HERE / "ranks/wrappers.py")
        for name in ("ddp view=True", "fp16 view=False", "bf16 view=True", "allreduce hook view=True", "zero", "fsdp"):
            self.assertIn(f"{name} ok", text)


if __name__ == "__main__":
    unittest.main()

"""The entry point "torch.backends". PyTorch calls register() at the end of its own import.

This module is apart from the package, because PyTorch may be imported by the package itself. The package is then not
complete, and registers the backend a little later.
"""


def register():
    import bps_torch  # noqa: F401: importing registers

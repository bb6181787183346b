"""Builds bps_torch against libbps: the installed one, that of $BPS_HOME, or that of this repository's build folder."""

import os
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
PLACES = [Path(p) for p in (os.environ.get("BPS_HOME"), HERE.parents[1], "/usr/local", "/usr") if p]


def find_bps():
    """Returns the folder of bps's headers, and libbps.so."""
    for place in PLACES:
        for library in (place / "lib/libbps.so", place / "build/lib/libbps.so"):
            if library.exists() and (place / "include/bps/bps_ext.h").exists():
                return place / "include", library
    raise SystemExit(
        f"bps_torch: no libbps.so with its headers in {', '.join(map(str, PLACES))}. Build and install bps "
        "(make install), or set BPS_HOME to the folder that has lib/libbps.so and include/bps"
    )


try:
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ImportError:
    raise SystemExit(
        "bps_torch: it is built for the PyTorch that is installed, but there is none here. Install torch, then run "
        "pip install --no-build-isolation frameworks/torch"
    )

INCLUDE, LIBRARY = find_bps()


class BuildWithLibrary(BuildExtension):
    """Puts libbps.so beside the extension, so that the package needs no other file of bps."""

    def run(self):
        super().run()
        package = Path(self.get_ext_fullpath("bps_torch._C")).parent
        package.mkdir(parents=True, exist_ok=True)
        shutil.copy2(LIBRARY, package / "libbps.so")

    def get_outputs(self):
        return super().get_outputs() + [str(Path(self.build_lib) / "bps_torch" / "libbps.so")]


setup(
    ext_modules=[
        CppExtension(
            "bps_torch._C",
            sorted(str(p.relative_to(HERE)) for p in (HERE / "csrc").glob("*.cc")),
            include_dirs=[str(INCLUDE)],
            library_dirs=[str(LIBRARY.parent)],
            libraries=["bps"],
            extra_compile_args=["-std=c++20", "-fvisibility=hidden", "-O2", "-g1"],
            extra_link_args=["-Wl,-rpath,$ORIGIN"],
        )
    ],
    cmdclass={"build_ext": BuildWithLibrary.with_options(use_ninja=False)},
)

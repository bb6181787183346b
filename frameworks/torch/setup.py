"""Builds bps_torch against libbps: the installed one, that of $BPS_HOME, or that of this repository's build folder."""

import os
import re
import shutil
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
PLACES = [Path(p) for p in (os.environ.get("BPS_HOME"), HERE.parents[1], "/usr/local", "/usr") if p]


def find_bps():
    """Returns the folder of bps's headers, and its libraries: libbps.so and the net plugin that it loads."""
    for place in PLACES:
        if not (place / "include/bps/bps_ext.h").exists():
            continue
        # The extension needs the library by its soname, which ends in the major number of the version.
        version = re.search(r"^#define BPS_MAJOR (\d+)$", (place / "include/bps/bps.h").read_text(), re.MULTILINE)
        if version is None:
            continue
        multiarch = sysconfig.get_config_var("MULTIARCH") or ""
        for folder in (place / "lib", place / "lib64", place / "lib" / multiarch, place / "build/lib"):
            libraries = [folder / f"libbps.so.{version.group(1)}", folder / "libnccl-net-bps.so"]
            if all(each.exists() for each in [folder / "libbps.so", *libraries]):
                return place / "include", libraries
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

INCLUDE, LIBRARIES = find_bps()


class BuildWithLibrary(BuildExtension):
    """Puts bps's two libraries beside the extension, so that the package needs no other file of bps."""

    def run(self):
        super().run()
        package = Path(self.get_ext_fullpath("bps_torch._C")).parent
        package.mkdir(parents=True, exist_ok=True)
        for library in LIBRARIES:
            shutil.copy2(library, package)

    def get_outputs(self):
        return super().get_outputs() + [str(Path(self.build_lib) / "bps_torch" / each.name) for each in LIBRARIES]


setup(
    ext_modules=[
        CppExtension(
            "bps_torch._C",
            sorted(str(p.relative_to(HERE)) for p in (HERE / "csrc").rglob("*.cc")),
            include_dirs=[str(INCLUDE), str(HERE / "csrc")],
            library_dirs=[str(LIBRARIES[0].parent)],
            libraries=["bps"],
            extra_compile_args=["-std=c++20", "-fvisibility=hidden", "-O2", "-g1"],
            extra_link_args=["-Wl,-rpath,$ORIGIN"],
        )
    ],
    cmdclass={"build_ext": BuildWithLibrary.with_options(use_ninja=False)},
)

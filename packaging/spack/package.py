# Recipe for Spack: copy this folder to packages/bps of a repository of recipes, then "spack install bps".
from spack.package import *


class Bps(MakefilePackage):
    """All-reduce of gradients over worker machines, with summation servers."""

    url = "file:///srv/spack/bps-0.1.0.tar.gz"

    license("Apache-2.0")

    version("0.1.0")

    variant("verbs", default=True, description="Transport over RDMA verbs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("gmake", type="build")
    depends_on("highway")
    depends_on("libsodium")
    depends_on("expat libs=static,shared")
    depends_on("fmt")
    depends_on("nlohmann-json")
    depends_on("cli11")
    depends_on("hwloc@2:", type="run")
    depends_on("rdma-core", when="+verbs")

    requires("%gcc@12:", msg="bps needs C++20 and OpenMP")

    @property
    def build_targets(self):
        return ["all", "VERBS=" + ("ib" if self.spec.satisfies("+verbs") else "without")]

    @property
    def install_targets(self):
        return ["install", "PREFIX=" + self.prefix] + self.build_targets[1:]

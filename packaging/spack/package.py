# SPDX-License-Identifier: Apache-2.0
# Not tried: Spack could not be had where this was written.
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Paradl(CMakePackage):
    """Planner, simulator and runtime for parallel training of networks."""

    homepage = "https://example.org/paradl"
    url = "https://example.org/paradl/paradl-0.2.0.tar.gz"

    license("Apache-2.0")

    # the checksum of what 'make sdist' writes is entered when it is published
    # version("0.2.0", sha256="...")
    version("main", branch="main", git="https://example.org/paradl.git")

    variant("mpi", default=True, description="paradl-run: what needs MPI")
    variant("serve", default=False, description="paradl serve")
    variant("python", default=True, description="the Python package")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("jansson")
    depends_on("libyaml")
    depends_on("protobuf-c")
    depends_on("xxhash")
    depends_on("expat")
    depends_on("zlib-api")
    depends_on("openmpi", when="+mpi")
    depends_on("onednn", when="+mpi")
    depends_on("hdf5~mpi", when="+mpi")
    depends_on("libmicrohttpd", when="+serve")
    extends("python@3.8:", when="+python")

    generator("ninja")

    def cmake_args(self):
        return [
            self.define_from_variant("PDL_RUN", "mpi"),
            self.define_from_variant("PDL_SERVE", "serve"),
            self.define("PDL_TESTS", False),
            self.define("PDL_WERROR", False),
            self.define("PDL_CUDA", "off"),
        ]

    @run_after("install")
    def install_python(self):
        if self.spec.satisfies("+python"):
            install_tree("python/paradl", join_path(python_platlib, "paradl"))

    def setup_run_environment(self, env):
        env.set("PARADL_LIBRARY", join_path(self.prefix.lib,
                                            "libparadl.so.0"))

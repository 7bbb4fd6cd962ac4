# SPDX-License-Identifier: BSD-3-Clause
from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Graticule(CMakePackage):
    """Domain decomposition of latitude-longitude grids over MPI ranks: partition, halo exchange and
    repartition, in C++, C and Fortran, and as differentiable LibTorch modules."""

    # `spack develop graticule` or `spack dev-build graticule@main` builds the sources at hand.
    version("main", branch="main")

    variant("torch", default=True, description="Layers and training (graticule::nn, graticule-train)")
    variant("apps", default=True, description="Drivers")
    variant("fortran", default=True, description="Fortran module graticule")
    variant("shared", default=False, description="Shared C++ libraries; the C library is always shared")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("python@3.8:", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    generator("ninja")

    depends_on("mpi@3.1:")
    depends_on("hdf5+mpi+hl")
    depends_on("zlib-api")
    depends_on("kokkos@3.4:5")
    # Its package extends CMAKE_PREFIX_PATH by the folder of TorchConfig.cmake.
    depends_on("py-torch@2:", when="+torch")
    with when("+apps"):
        depends_on("cli11@2:")
        depends_on("yaml-cpp")
        depends_on("fmt")
        depends_on("spdlog+fmt_external")
        depends_on("nlohmann-json@3.11:")
        depends_on("cairo+png")
    depends_on("googletest", type="test")

    def cmake_args(self):
        args = [
            self.define_from_variant("GRATICULE_ENABLE_TORCH", "torch"),
            self.define_from_variant("GRATICULE_BUILD_APPS", "apps"),
            self.define_from_variant("GRATICULE_ENABLE_FORTRAN", "fortran"),
            self.define_from_variant("BUILD_SHARED_LIBS", "shared"),
            self.define("GRATICULE_BUILD_TESTS", self.run_tests),
            self.define("MPI_C_COMPILER", self.spec["mpi"].mpicc),
        ]
        if self.spec.satisfies("+fortran"):
            args.append(self.define("MPI_Fortran_COMPILER", self.spec["mpi"].mpifc))
        return args

# Spack's recipe (Spack 1.0 and newer). Nothing is downloaded but crates. In a clone of the sources:
#
#   spack repo add packaging/spack/spack_repo/stasis
#   spack dev-build stasis@0.1.0 ^openmpi
#
# The lower half is for the MPI library that the spec names. Users build others for themselves:
# `stasis build-lower --mpicc PATH`.

import os

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Stasis(Package):
    """Freezes a running MPI job to disk and brings it back: the same binary, not recompiled, under
    another MPI library if need be."""

    license("MIT OR Apache-2.0")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")
    # Its libclang reads mpi.h.
    depends_on("llvm +clang", type="build")
    depends_on("mpi")

    conflicts("platform=darwin")
    requires("target=x86_64:", msg="one architecture so far")

    fronts = ("openmpi", "mpich", "standard")

    def setup_build_environment(self, env):
        env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)

    def install(self, spec, prefix):
        packages = ["stasis-cli"] + ["stasis-front-" + front for front in self.fronts]
        chosen = [word for package in packages for word in ("-p", package)]
        which("cargo")("build", "--release", "--locked", *chosen)
        built = join_path(self.stage.source_path, "target", "release")

        mkdirp(prefix.bin, prefix.lib.stasis, prefix.include)
        install(join_path(built, "stasis"), prefix.bin)
        for front in self.fronts:
            library = join_path(built, "libstasis_front_{0}.so".format(front))
            install(library, join_path(prefix.lib.stasis, "front-{0}.so".format(front)))
        for header in ("stasis.h", "stasis.f90"):
            install(join_path("upper-half", "include", header), prefix.include)

        stasis = Executable(prefix.bin.stasis)
        mpicc = os.path.join(spec["mpi"].prefix.bin, "mpicc")
        stasis("build-lower", "--mpicc", mpicc, "--source", self.stage.source_path)
        stasis("man", "--directory", prefix.share.man.man1)

##Command: /usr/bin/python3 {source}
##Ranks: 2
##Mpi: openmpi
##Cut: after 20 to 120 lines of steps with step
##Kill: later
##Modes: plain, continue, restart, migrate
##Environment: PETSC_DIR=/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real
##Timeout: 180
##Package: python3-petsc4py
##Shows: PETSc, which writes a vector by MPI-IO in each step, over the one before, and reads it again; a step that is done twice gives another vector
import sys

import petsc4py

petsc4py.init(sys.argv)
import numpy
from petsc4py import PETSc

STEPS = 150
SIZE = 20000
comm = PETSc.COMM_WORLD
vector = PETSc.Vec().createMPI(SIZE, comm=comm)
first, last = vector.getOwnershipRange()
vector.setArray(numpy.arange(first, last, dtype=float) % 97)


def write():
    viewer = PETSc.Viewer().createMPIIO("vector.dat", "w", comm=comm)
    vector.view(viewer)
    viewer.destroy()


def read():
    vector.set(0)
    viewer = PETSc.Viewer().createMPIIO("vector.dat", "r", comm=comm)
    vector.load(viewer)
    viewer.destroy()


write()
for step in range(STEPS):
    read()
    values = vector.getArray()
    total = vector.sum()
    values[:] = (values * 31 + numpy.arange(first, last) * step + total) % 1000003
    write()
    comm.barrier()
    if comm.rank == 0:
        with open("steps", "a") as steps:
            steps.write("step %d\n" % step)
read()
total, weighted = vector.sum(), vector.norm()
if comm.rank == 0:
    lines = open("steps").read().splitlines()
    assert lines == ["step %d" % step for step in range(STEPS)], lines
    print("sum %.17g, norm %.17g" % (total, weighted))

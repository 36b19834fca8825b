##Command: /usr/bin/python3 {source}
##Ranks: 2
##Mpi: openmpi
##Cut: after 10 to 60 lines of steps.0 with step
##Kill: later
##Modes: plain, continue, restart, migrate
##Timeout: 120
##Environment: PETSC_DIR=/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real
##Package: python3-petsc4py
##Shows: PETSc, whose solution lies in a binary file between two steps, which the next one overwrites; a step that is done twice gives another solution
import sys

import petsc4py

petsc4py.init(sys.argv)
from petsc4py import PETSc

STEPS, SIZE = 80, 48
comm = PETSc.COMM_WORLD

# One plus a diffusion, as an implicit step in time has it.
matrix = PETSc.Mat().createAIJ([SIZE * SIZE] * 2, nnz=5, comm=comm)
first, last = matrix.getOwnershipRange()
for row in range(first, last):
    x, y = row % SIZE, row // SIZE
    matrix.setValue(row, row, 5.0)
    for i, j in (x - 1, y), (x + 1, y), (x, y - 1), (x, y + 1):
        if 0 <= i < SIZE and 0 <= j < SIZE:
            matrix.setValue(row, j * SIZE + i, -1.0)
matrix.assemble()
solver = PETSc.KSP().create(comm)
solver.setOperators(matrix)
solver.setType("cg")
solver.getPC().setType("jacobi")
solver.setTolerances(rtol=1e-12)


def keep(vector):
    viewer = PETSc.Viewer().createBinary("state.bin", "w", comm=comm)
    vector.view(viewer)
    viewer.destroy()


def kept():
    vector = matrix.createVecRight()
    viewer = PETSc.Viewer().createBinary("state.bin", "r", comm=comm)
    vector.load(viewer)
    viewer.destroy()
    return vector


start = matrix.createVecRight()
for row in range(first, last):
    start.setValue(row, row % 17 + 1.0)
start.assemble()
keep(start)

for step in range(STEPS):
    before, after = kept(), matrix.createVecRight()
    before.shift(0.01 * step)
    solver.solve(before, after)
    keep(after)
    if comm.getRank() == 0:
        with open("steps.0", "a") as steps:
            steps.write("step %d\n" % step)

norm = kept().norm()
if comm.getRank() == 0:
    assert open("steps.0").read().splitlines() == ["step %d" % step for step in range(STEPS)]
    print("%.10e" % norm)

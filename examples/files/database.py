##Command: /usr/bin/python3 {source}
##Ranks: 2
##Mpi: openmpi
##Cut: after 20 to 120 lines of steps.0 with step
##Kill: later
##Modes: plain, continue, restart, migrate
##Timeout: 120
##Package: python3-h5py
##Shows: SQLite, which overwrites its file in place and makes and removes a journal beside it in each transaction, and HDF5, which overwrites a dataset; a step that is done twice gives another sum
import sqlite3

import h5py
import numpy
from mpi4py import MPI

PRIME = 1000003
STEPS = 150
comm = MPI.COMM_WORLD
rank = comm.Get_rank()

table = sqlite3.connect("table.%d.db" % rank, isolation_level=None)
table.execute("CREATE TABLE cells (place INTEGER PRIMARY KEY, value INTEGER)")
table.executemany("INSERT INTO cells VALUES (?, ?)", [(n, n) for n in range(200)])
with h5py.File("field.%d.h5" % rank, "w") as file:
    file["field"] = numpy.arange(5000)

for step in range(STEPS):
    table.execute("BEGIN")
    table.execute("UPDATE cells SET value = (value * 31 + place + ?) % ?", (step, PRIME))
    table.execute("COMMIT")
    with h5py.File("field.%d.h5" % rank, "r+") as file:
        field = file["field"]
        field[step::7] = (field[step::7] * 31 + step) % PRIME
    comm.Barrier()
    with open("steps.%d" % rank, "a") as steps:
        steps.write("step %d\n" % step)

(total,) = table.execute("SELECT sum(value * place) FROM cells").fetchone()
with h5py.File("field.%d.h5" % rank, "r") as file:
    total += int((file["field"][:] * numpy.arange(5000)).sum())
lines = open("steps.%d" % rank).read().splitlines()
assert lines == ["step %d" % step for step in range(STEPS)], lines
for line in comm.gather("rank %d: %d" % (rank, total)) or []:
    print(line)

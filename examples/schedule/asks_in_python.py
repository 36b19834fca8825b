##Ranks: 2
##Mpi: openmpi
##Cut: loop
##Shows: a program in Python that asks for checkpoints itself, by the file that is only there under Stasis
import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
go = os.environ.get("STASIS_TEST_GO")
step = 0
while comm.bcast(step < 100 or not (go is None or os.path.exists(go)) if comm.rank == 0 else None):
    if step == 2 and "STASIS_TEST_READY" in os.environ:
        open("%s.%d" % (os.environ["STASIS_TEST_READY"], comm.rank), "w").close()
    if step == 20:
        try:
            open("/proc/stasis/checkpoint", "w").close()
            print("asked: 1", file=sys.stderr)
        except OSError:
            print("asked: 0", file=sys.stderr)
    assert comm.allreduce(step) == comm.size * step
    step += 1
if comm.rank == 0:
    print("OK asks_in_python")

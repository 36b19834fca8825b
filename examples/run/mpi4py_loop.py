##Ranks: 2
##Mpi: openmpi
##Cut: loop
##Timeout: 120
##Shows: Debian's python3 and mpi4py, unmodified: pickled objects, buffers and collectives in a loop
import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


def may_end():
    go = os.environ.get("STASIS_TEST_GO")
    return go is None or os.path.exists(go)


step = 0
half = comm.Split(rank % 2)
while True:
    if step == 2 and "STASIS_TEST_READY" in os.environ:
        open("%s.%d" % (os.environ["STASIS_TEST_READY"], rank), "w").close()
    if not comm.bcast(step < 100 or not may_end() if rank == 0 else None):
        break
    request = comm.irecv(source=(rank - 1) % size, tag=7)
    comm.send({"step": step, "from": rank, "text": "x" * (step % 50)}, dest=(rank + 1) % size, tag=7)
    got = request.wait()
    assert got == {"step": step, "from": (rank - 1) % size, "text": "x" * (step % 50)}, got
    out, into = bytearray([step % 256] * 100000), bytearray(100000)
    comm.Sendrecv(out, (rank + 1) % size, 3, into, (rank - 1) % size, 3)
    assert out == into
    assert comm.allreduce(step + rank) == size * step + size * (size - 1) // 2
    assert half.allgather(rank) == [rank]
    step += 1
half.Free()
if rank == 0:
    print("OK mpi4py_loop")
    sys.stdout.flush()

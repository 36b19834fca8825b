##Ranks: 2
##Mpi: openmpi
##Cut: loop
##Timeout: 120
##Shows: mpi4py with two threads that call MPI in each rank, pickled objects under way and non-blocking collectives
import os
import sys
import threading

from mpi4py import MPI

assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
right, left = (rank + 1) % size, (rank - 1) % size
comms = [world.Dup() for _ in range(2)]
failures = []


def may_end():
    go = os.environ.get("STASIS_TEST_GO")
    return go is None or os.path.exists(go)


def exchange(comm, step, thread):
    """Pickled objects to the right, and two collectives, all under way at the same time."""
    told = {"step": step, "from": rank, "thread": thread, "text": "x" * (step % 50)}
    sent = comm.isend(told, dest=right, tag=thread)
    mine, total = bytearray([step % 256] * 50000), bytearray(50000)
    if rank == 0:
        total[:] = mine
    known = comm.Ibcast(total, root=0)
    barrier = comm.Ibarrier()
    got = comm.recv(source=left, tag=thread)
    MPI.Request.Waitall([known, barrier])
    sent.wait()
    assert got == dict(told, **{"from": left}), got
    assert total == mine


def work(thread):
    comm, step = comms[thread], 0
    try:
        while True:
            if step == 2 and thread == 0 and "STASIS_TEST_READY" in os.environ:
                open("%s.%d" % (os.environ["STASIS_TEST_READY"], rank), "w").close()
            if not comm.bcast(step < 60 or not may_end() if rank == 0 else None):
                return
            exchange(comm, step, thread)
            step += 1
    except BaseException as failure:
        failures.append(failure)
        world.Abort(1)


threads = [threading.Thread(target=work, args=(thread,)) for thread in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures
for comm in comms:
    comm.Free()
if rank == 0:
    print("OK mpi4py_threads")
    sys.stdout.flush()

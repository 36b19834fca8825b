##Ranks: 2
##Mpi: openmpi
##Cut: loop
##Timeout: 120
##Shows: Python's asyncio (epoll, a socket pair, timers) beside mpi4py, after child processes whose pipes are closed again; a temporary file; a lock
import asyncio
import fcntl
import os
import subprocess
import sys
import tempfile
import threading

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


def may_end():
    go = os.environ.get("STASIS_TEST_GO")
    return go is None or os.path.exists(go)


async def main():
    loop = asyncio.get_running_loop()
    scratch = tempfile.TemporaryFile("w+")
    locked = open("lock.%d" % rank, "w")
    fcntl.lockf(locked, fcntl.LOCK_EX)
    assert subprocess.check_output(["echo", "child"], text=True) == "child\n"
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    step = 0
    while True:
        if step == 2 and "STASIS_TEST_READY" in os.environ:
            open("%s.%d" % (os.environ["STASIS_TEST_READY"], rank), "w").close()
        if not comm.bcast(step < 100 or not may_end() if rank == 0 else None):
            break
        # Another thread answers: it wakes the loop up through the socket pair.
        answer = loop.create_future()
        tell = lambda: loop.call_soon_threadsafe(answer.set_result, comm.Get_rank() + step)
        threading.Thread(target=tell).start()
        assert await answer == rank + step
        assert comm.allreduce(step) == size * step
        before = ticks
        while ticks == before:
            await asyncio.sleep(0)
        scratch.write("%d\n" % step)
        scratch.flush()
        step += 1
    ticking.cancel()
    scratch.seek(0)
    assert scratch.read().split() == [str(n) for n in range(step)]
    held = "import fcntl, sys\ntry: fcntl.lockf(open(sys.argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)\nexcept OSError: print('held')"
    assert subprocess.check_output([sys.executable, "-c", held, locked.name], text=True) == "held\n"


asyncio.run(main())
if rank == 0:
    print("OK event_loop")
    sys.stdout.flush()

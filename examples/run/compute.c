//#Ranks: 2
//#Shows: a rank in a long loop without a single MPI call, while the other waits for it
//#Variant: recv_waits; cut=hold; matrix=full
//#Variant: barrier_waits; cut=pending
//#Variant: thirty_seconds; cut=timed; modes=migrate; mpi=openmpi; timeout=150
#include "../stasis_test.h"

/* A logistic map in integers: no call, no system call, no end before `steps`. */
static uint64_t grind(uint64_t x, long steps)
{
    for (long i = 0; i < steps; i++)
        x = x * 6364136223846793005u + (x >> 33) + 1442695040888963407u;
    return x;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int waits_in_barrier = test_is(argc, argv, "barrier_waits");
    char bytes[5000];
    uint64_t x = 0;
    if (test_rank == 0) {
        MPI_Request request;
        /* A rendezvous that only this rank's drain can finish. */
        static char big[500000];
        test_fill(big, sizeof big, 8);
        MPI_OK(MPI_Isend(big, sizeof big, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &request));
        cut_announce();
        if (test_is(argc, argv, "thirty_seconds") && !cut_open()) {
            /* As many steps as half a minute takes here, in one loop that asks nobody anything. */
            double start = now();
            x = grind(1, 50000000);
            long rounds = (long)(30 / (now() - start));
            x = grind(x, rounds * 50000000);
        } else {
            do
                x = grind(1, 100000000);
            while (!cut_open());
        }
        CHECK(x != 42, "nobody looks at the result otherwise");
        if (!waits_in_barrier) {
            test_fill(bytes, sizeof bytes, 3);
            MPI_OK(MPI_Send(bytes, sizeof bytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD));
        }
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        static char big[500000];
        cut_announce();
        if (!waits_in_barrier) {
            MPI_OK(MPI_Recv(bytes, sizeof bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            test_verify(bytes, sizeof bytes, 3);
        }
        MPI_OK(MPI_Recv(big, sizeof big, MPI_BYTE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(big, sizeof big, 8);
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    return test_finish(argv[1]);
}

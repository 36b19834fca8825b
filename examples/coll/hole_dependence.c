//#Ranks: 3
//#Shows: second hole: a point-to-point dependence on a rank that parks before a collective of another group
//#Variant: alone; cut=pending; matrix=full; hangs=final-parking
//#Variant: pair; cut=pending; ranks=4; hangs=final-parking
//#Variant: held; cut=pending; matrix=full
//#Variant: loop; cut=loop
#include "../stasis_test.h"

#include <signal.h>
#include <sys/time.h>

/* Rank 0: Recv(from 1); Barrier(G). Rank 2: already inside Barrier(G). Rank 1, not in G:
 * Barrier(H); Send(to 0). Rank 1 has reached all its targets and parks before Barrier(H), rank 0
 * waits for rank 1, rank 2 for rank 0. H is rank 1 alone, or rank 1 and rank 3.
 *
 * In variant "held" rank 0 gets no processor for a second just when rank 1 may go on, as on a machine with
 * too much to do: it seems to wait for rank 1 then, which must not be let through to the program's end. */

/* Until the program may go on; then once for much longer than the coordinator takes for standing still. */
static void hold(int signal)
{
    const struct itimerval off = {{0, 0}, {0, 0}};
    struct timespec second = {1, 0};
    (void)signal;
    if (cut_open()) {
        setitimer(ITIMER_REAL, &off, NULL);
        nanosleep(&second, NULL);
    }
}

static void hold_when_open(void)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}};
    struct sigaction action = {.sa_handler = hold, .sa_flags = SA_RESTART};
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
}

static void round_of(MPI_Comm g, MPI_Comm h, int seed, int cutting)
{
    char bytes[256];
    if (test_rank == 0) {
        if (cutting)
            cut_announce();
        MPI_OK(MPI_Recv(bytes, sizeof bytes, MPI_BYTE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(bytes, sizeof bytes, (uint32_t)seed);
        MPI_OK(MPI_Barrier(g));
    } else if (test_rank == 1) {
        if (cutting)
            cut();
        MPI_OK(MPI_Barrier(h));
        test_fill(bytes, sizeof bytes, (uint32_t)seed);
        MPI_OK(MPI_Send(bytes, sizeof bytes, MPI_BYTE, 0, 5, MPI_COMM_WORLD));
    } else if (test_rank == 2) {
        if (cutting)
            cut_announce();
        MPI_OK(MPI_Barrier(g));
    } else {
        if (cutting)
            cut();
        MPI_OK(MPI_Barrier(h));
    }
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Comm half;
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, test_rank % 2, test_rank, &half));
    if (test_is(argc, argv, "loop")) {
        for (int step = 0; cut_more(step, 40, MPI_COMM_WORLD); step++)
            for (int i = 0; i < 10; i++)
                round_of(half, half, 10 * step + i, 0);
    } else {
        if (test_rank == 0 && test_is(argc, argv, "held"))
            hold_when_open();
        round_of(half, half, 1, 1);
    }
    MPI_OK(MPI_Comm_free(&half));
    return test_finish_loop(argv[1]);
}

//#Ranks: 2
//#Cut: loop
//#Modes: plain, continue, restart, migrate
//#Compare: none
//#Variant: messages
//#Variant: collectives
//#Shows: ranks that share one core and wait for each other: who waits gives it away soon, though the machine has a core for each (natively such a message or operation takes a time slice, and this program minutes)
#include "../stasis_test.h"

#include <sched.h>

/* At a time slice each (3 to 4 ms) they take longer than a case may. */
enum { TURNS = 500 };

static void share_one_core(void)
{
    cpu_set_t set;
    int core = 0;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET(core, &set))
        core++;
    MPI_OK(MPI_Bcast(&core, 1, MPI_INT, 0, MPI_COMM_WORLD));
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    CHECK_EQ(sched_setaffinity(0, sizeof set, &set), 0);
}

static void exchange(int sent)
{
    int other = 1 - test_rank, got = -1;
    if (test_rank == 0)
        MPI_OK(MPI_Send(&sent, 1, MPI_INT, other, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Recv(&got, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(got, sent);
    if (test_rank == 1)
        MPI_OK(MPI_Send(&sent, 1, MPI_INT, other, 0, MPI_COMM_WORLD));
}

static void operate(int sent)
{
    int sum = -1, root = sent % 2;
    MPI_OK(MPI_Allreduce(&sent, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, 2 * sent);
    MPI_OK(MPI_Bcast(&sum, 1, MPI_INT, root, MPI_COMM_WORLD));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int collectives = test_is(argc, argv, "collectives");
    share_one_core();
    for (int step = 0; cut_more(step, 20, MPI_COMM_WORLD); step++)
        for (int turn = 0; turn < TURNS; turn++) {
            int sent = step * TURNS + turn;
            if (collectives)
                operate(sent);
            else
                exchange(sent);
        }
    return test_finish_loop("one_core");
}

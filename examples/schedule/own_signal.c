//#Ranks: 2
//#Cut: loop
//#Shows: a program with a handler of its own for SIGUSR1, which it sees unless it was given to Stasis
#include "../stasis_test.h"

#include <signal.h>

static volatile sig_atomic_t seen;

static void on_signal(int signal) { seen += signal == SIGUSR1; }

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    int all;
    sigaction(SIGUSR1, &action, NULL);
    test_start(&argc, &argv);
    for (int step = 0; cut_more(step, 100, MPI_COMM_WORLD); step++)
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    int own = seen;
    MPI_OK(MPI_Reduce(&own, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
    if (test_rank == 0)
        printf("saw %d\n", all);
    return test_finish_loop("own_signal");
}

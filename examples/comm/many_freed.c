//#Ranks: 2
//#Cut: hold
//#Shows: hundreds of communicators that one rank has freed and the other not before the cut; the last of them does not take a thousand times as long as the first
#include "../stasis_test.h"

/* Whether all have freed a communicator is looked at when others are made and freed. That must not be all of
 * them each time: one who frees a thousand before the others do would look half a million times. */
enum { MANY = 600, BATCH = 10, EDGE = 100 };

/* The shortest time that a batch took: what else the machine does makes others longer. */
static double shortest(const double *seconds, int from, int to)
{
    double least = seconds[from];
    for (int i = from; i < to; i++)
        if (seconds[i] < least)
            least = seconds[i];
    return least;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    static MPI_Comm many[MANY];
    double seconds[MANY / BATCH];
    for (int i = 0; i < MANY; i++)
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &many[i]));
    if (test_rank == 1) {
        for (int batch = 0; batch < MANY / BATCH; batch++) {
            double start = MPI_Wtime();
            for (int i = 0; i < BATCH; i++)
                MPI_OK(MPI_Comm_free(&many[batch * BATCH + i]));
            seconds[batch] = MPI_Wtime() - start;
        }
        double first = shortest(seconds, 1, EDGE / BATCH);
        double last = shortest(seconds, (MANY - EDGE) / BATCH, MANY / BATCH);
        CHECK(last < 200 * first, "the first took %g us each, the last %g", 1e6 * first / BATCH, 1e6 * last / BATCH);
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    cut();
    if (test_rank == 0)
        for (int i = 0; i < MANY; i++)
            MPI_OK(MPI_Comm_free(&many[i]));
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &many[0]));
    MPI_OK(MPI_Barrier(many[0]));
    MPI_OK(MPI_Comm_free(&many[0]));
    return test_finish("many_freed");
}

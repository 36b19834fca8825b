//#Ranks: 2
//#Mpi: openmpi, mpich
//#Cut: hold
//#Environment: UCX_LOG_LEVEL=error
//#Shows: windows that the library below refuses to make (MPICH, when it has hardly any communicators left): checkpoints are taken all the same
#include "../stasis_test.h"

/* More than MPICH has. */
enum { MANY = 2100 };

int main(int argc, char **argv)
{
    static MPI_Comm taken[MANY];
    int count = 0, word = test_rank;
    MPI_Win window = MPI_WIN_NULL;
    test_start(&argc, &argv);
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    while (count < MANY && MPI_Comm_dup(MPI_COMM_WORLD, &taken[count]) == MPI_SUCCESS)
        count++;
    for (int spare = 0; spare < 2 && count < MANY; spare++)
        MPI_OK(MPI_Comm_free(&taken[--count]));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    while (count > 0)
        MPI_OK(MPI_Comm_free(&taken[--count]));
    cut();
    if (window != MPI_WIN_NULL)
        MPI_OK(MPI_Win_free(&window));
    return test_finish("not_made");
}

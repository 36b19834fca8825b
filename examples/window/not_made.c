//#Ranks: 2
//#Mpi: openmpi, mpich
//#Cut: hold
//#Shows: windows that the library below may refuse to make (over one process, Debian's Open MPI 4.1): checkpoints are taken all the same
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    int *base, *shared, word = test_rank;
    MPI_Win created = MPI_WIN_NULL, allocated = MPI_WIN_NULL, together = MPI_WIN_NULL;
    MPI_Win *all[] = {&created, &allocated, &together};
    MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, MPI_COMM_SELF, &created);
    MPI_Win_allocate(sizeof word, 1, MPI_INFO_NULL, MPI_COMM_SELF, &base, &allocated);
    MPI_Win_allocate_shared(sizeof word, 1, MPI_INFO_NULL, MPI_COMM_SELF, &shared, &together);
    cut();
    for (int i = 0; i < 3; i++)
        if (*all[i] != MPI_WIN_NULL)
            MPI_OK(MPI_Win_free(all[i]));
    CHECK_EQ(word, test_rank);
    return test_finish("not_made");
}

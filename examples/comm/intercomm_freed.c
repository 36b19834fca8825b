//#Ranks: 4
//#Cut: hold
//#Shows: intercommunicators that all ranks but one have freed before the cut, each rank being that one once
#include "../stasis_test.h"

/* A barrier of an intercommunicator says nothing of the own side, and in Open MPI little of the other one's:
 * one who is through must not take it that all others have freed. */
enum { LOOKS = 20 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int side = test_rank / 2, size = 0, is_inter = 0;
    MPI_Comm local, inter[4], own;
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, side, test_rank, &local));
    for (int last = 0; last < 4; last++)
        MPI_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? 0 : 2, last, &inter[last]));
    for (int last = 0; last < 4; last++)
        if (test_rank != last)
            MPI_OK(MPI_Comm_free(&inter[last]));
    for (int look = 0; look < LOOKS; look++) {
        MPI_OK(MPI_Comm_dup(MPI_COMM_SELF, &own));
        MPI_OK(MPI_Comm_free(&own));
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    cut();
    MPI_OK(MPI_Comm_test_inter(inter[test_rank], &is_inter));
    MPI_OK(MPI_Comm_remote_size(inter[test_rank], &size));
    CHECK(is_inter && size == 2, "another communicator than was held");
    MPI_OK(MPI_Comm_free(&inter[test_rank]));
    MPI_OK(MPI_Comm_free(&local));
    return test_finish("intercomm_freed");
}

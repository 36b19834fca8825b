//#Shows: starts of persistent collectives and of partitioned messages, and a large count, whose number and bytes are known: `profile/counts/repeated` compares them
//#Ranks: 2
//#Mpi: mpich
//#Cut: hold
#include "../stasis_test.h"

static void rounds(int number, MPI_Request *repeated, MPI_Request *message)
{
    MPI_Status statuses[2];
    for (int round = 0; round < number; round++) {
        MPI_OK(MPI_Startall(2, repeated));
        MPI_OK(MPI_Waitall(2, repeated, statuses));
        MPI_OK(MPI_Start(message));
        if (test_rank == 0)
            MPI_OK(MPI_Pready_range(0, 1, *message));
        MPI_OK(MPI_Wait(message, MPI_STATUS_IGNORE));
    }
}

int main(int argc, char **argv)
{
    MPI_Request repeated[2], message;
    int given[3] = {0}, part[4] = {0};
    test_start(&argc, &argv);
    if (test_rank == 0)
        given[0] = 1, given[1] = 2, part[3] = 5;
    MPI_OK(MPI_Bcast_init(given, 3, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &repeated[0]));
    MPI_OK(MPI_Bcast_c(part, 2, MPI_INT, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &repeated[1]));
    if (test_rank == 0)
        MPI_OK(MPI_Psend_init(part, 2, 2, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &message));
    else
        MPI_OK(MPI_Precv_init(part, 1, 4, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &message));
    rounds(6, repeated, &message);
    cut();
    rounds(4, repeated, &message);
    for (int i = 0; i < 2; i++)
        MPI_OK(MPI_Request_free(&repeated[i]));
    MPI_OK(MPI_Request_free(&message));
    CHECK(given[1] == 2 && part[3] == 5, "the data have not arrived");
    return test_finish("repeated");
}

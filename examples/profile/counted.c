//#Shows: calls of many kinds, whose number and bytes are known: `profile/counts` compares them
//#Ranks: 2
//#Mpi: openmpi, mpich
//#Cut: hold
#include "../stasis_test.h"

static int deleted(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int size;
    (void)keyval, (void)value, (void)extra;
    return MPI_Comm_size(comm, &size);
}

static void rounds(int number, MPI_Comm comm, MPI_Datatype column, MPI_Win win)
{
    int other = 1 - test_rank, part[2] = {1, 1};
    double grid[4][4] = {{0}};
    char bytes[3000] = {0}, got[3000];
    for (int round = 0; round < number; round++) {
        MPI_Request request;
        int keyval, twice[4] = {test_rank, test_rank, 0, 0}, sums[4];
        /* Rank 0 sends 1 and 2 elements, rank 1 sends 2 and 2. */
        int counts[2] = {1 + test_rank, 2}, displs[2] = {0, 2}, from[2] = {1 + test_rank, 2};
        if (test_rank == 0) {
            MPI_OK(MPI_Send(&grid[0][1], 1, column, 1, 1, comm));
            MPI_OK(MPI_Recv(bytes, sizeof bytes, MPI_CHAR, 1, 1, comm, MPI_STATUS_IGNORE));
        } else {
            MPI_OK(MPI_Recv(&grid[0][1], 1, column, 0, 1, comm, MPI_STATUS_IGNORE));
            MPI_OK(MPI_Send(bytes, 1500, MPI_CHAR, 0, 1, comm));
        }
        MPI_OK(MPI_Sendrecv(bytes, 100, MPI_CHAR, other, 2, got, sizeof got, MPI_CHAR, other, 2, comm,
                            MPI_STATUS_IGNORE));
        MPI_OK(MPI_Send_init(bytes, 7, MPI_CHAR, other, 3, comm, &request));
        for (int again = 0; again < 3; again++) {
            MPI_OK(MPI_Start(&request));
            MPI_OK(MPI_Recv(got, 7, MPI_CHAR, other, 3, comm, MPI_STATUS_IGNORE));
            MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        MPI_OK(MPI_Request_free(&request));
        MPI_OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, twice, 2, MPI_INT, comm));
        MPI_OK(MPI_Alltoallv(twice, counts, displs, MPI_INT, sums, from, displs, MPI_INT, comm));
        MPI_OK(MPI_Ireduce(part, sums, 2, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD, &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Win_fence(0, win));
        MPI_OK(MPI_Put(part, 1, MPI_INT, other, 0, 1, MPI_INT, win));
        MPI_OK(MPI_Win_fence(0, win));
        /* The callback's call is the program's, too. */
        MPI_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &keyval, NULL));
        MPI_OK(MPI_Comm_set_attr(comm, keyval, part));
        MPI_OK(MPI_Comm_delete_attr(comm, keyval));
        MPI_OK(MPI_Comm_free_keyval(&keyval));
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Datatype column;
    MPI_Win win;
    int up, shared[2] = {0};
    test_start(&argc, &argv);
    MPI_OK(MPI_Initialized(&up));
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_OK(MPI_Comm_set_name(comm, "grid"));
    MPI_OK(MPI_Type_vector(4, 1, 4, MPI_DOUBLE, &column));
    MPI_OK(MPI_Type_commit(&column));
    MPI_OK(MPI_Win_create(shared, sizeof shared, 1, MPI_INFO_NULL, comm, &win));
    rounds(6, comm, column, win);
    cut();
    rounds(4, comm, column, win);
    MPI_OK(MPI_Win_free(&win));
    MPI_OK(MPI_Type_free(&column));
    MPI_OK(MPI_Comm_free(&comm));
    return test_finish("counted");
}

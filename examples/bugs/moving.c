/* A job without a bug, whose ranks wait in most of the ways that there are and always go on. */
#include "../stasis_test.h"

enum { FEW = 50, MANY = 100000 };

/* Each rank sends to the next one and receives from the one before. */
static void ring(int step, int count, int mode)
{
    static int out[MANY], in[MANY];
    int next = (test_rank + 1) % test_size, before = (test_rank + test_size - 1) % test_size;
    MPI_Request requests[2];
    for (int i = 0; i < count; i++)
        out[i] = step + test_rank + i;
    switch (mode) {
    case 0:
        MPI_OK(MPI_Sendrecv(out, count, MPI_INT, next, 1, in, count, MPI_INT, before, 1, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE));
        break;
    case 1:
        MPI_OK(MPI_Irecv(in, count, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[0]));
        MPI_OK(MPI_Isend(out, count, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[1]));
        MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        break;
    default:
        MPI_OK(MPI_Irecv(in, count, MPI_INT, before, 3, MPI_COMM_WORLD, &requests[0]));
        MPI_OK(MPI_Ssend(out, count, MPI_INT, next, 3, MPI_COMM_WORLD));
        for (int done = 0; !done;)
            MPI_OK(MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE));
    }
    for (int i = 0; i < count; i++)
        CHECK_EQ(in[i], step + before + i);
}

int main(int argc, char **argv)
{
    MPI_Request request;
    test_start(&argc, &argv);
    for (int step = 0; cut_more(step, 20, MPI_COMM_WORLD); step++) {
        int sum = 0, root = step % test_size, value = test_rank == root ? step : 0;
        for (int mode = 0; mode < 3; mode++) {
            ring(step, FEW, mode);
            ring(step, MANY, mode);
        }
        MPI_OK(MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(sum, test_size * (test_size - 1) / 2);
        MPI_OK(MPI_Ibcast(&value, 1, MPI_INT, root, MPI_COMM_WORLD, &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(value, step);
    }
    return test_finish_loop("moving");
}

//#Ranks: 3
//#Cut: hold
//#Matrix: full
//#Shows: receives posted before the cut and matched after it, in the order in which they were posted
#include "../stasis_test.h"

enum { EACH = 4, BIG = 200000 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    static int small[EACH], wild[EACH];
    static char big[EACH][BIG], out[BIG];
    MPI_Request requests[3 * EACH];
    MPI_Status statuses[3 * EACH];

    /* Same source and tag: only the order of posting tells them apart. */
    for (int i = 0; i < EACH; i++) {
        small[i] = wild[i] = -1;
        MPI_OK(MPI_Irecv(&small[i], 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[i]));
        MPI_OK(MPI_Irecv(big[i], BIG, MPI_BYTE, left, 2, MPI_COMM_WORLD, &requests[EACH + i]));
        MPI_OK(MPI_Irecv(&wild[i], 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &requests[2 * EACH + i]));
    }
    cut();
    for (int i = 0; i < EACH; i++) {
        int value = 1000 * test_rank + i;
        int n = BIG - 1000 * i;
        MPI_OK(MPI_Send(&value, 1, MPI_INT, right, 1, MPI_COMM_WORLD));
        MPI_OK(MPI_Send(&value, 1, MPI_INT, right, 3, MPI_COMM_WORLD));
        test_fill(out, n, (uint32_t)value);
        MPI_OK(MPI_Sendrecv(out, n, MPI_BYTE, right, 2, NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE));
        if (i == 0)
            for (int done = 0; !done;)
                MPI_OK(MPI_Test(&requests[0], &done, &statuses[0]));
    }
    MPI_OK(MPI_Waitall(3 * EACH, requests, statuses));
    for (int i = 0; i < EACH; i++) {
        int count;
        CHECK_EQ(small[i], 1000 * left + i);
        CHECK_EQ(wild[i], 1000 * left + i);
        CHECK_EQ(statuses[2 * EACH + i].MPI_SOURCE, left);
        MPI_OK(MPI_Get_count(&statuses[EACH + i], MPI_BYTE, &count));
        CHECK_EQ(count, BIG - 1000 * i);
        test_verify(big[i], count, (uint32_t)(1000 * left + i));
    }
    return test_finish("posted_receives");
}

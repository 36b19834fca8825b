//#Ranks: 4
//#Cut: hold
//#Shows: MPI_ANY_SOURCE and MPI_ANY_TAG receives that find messages which were in flight at the cut
#include "../stasis_test.h"

enum { EACH = 12 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Request early[EACH / 2];
    int values[EACH / 2][2];
    if (test_rank != 0) {
        for (int i = 0; i < EACH / 2; i++) {
            values[i][0] = test_rank;
            values[i][1] = i;
            MPI_OK(MPI_Isend(values[i], 2, MPI_INT, 0, 10 * test_rank + i % 3, MPI_COMM_WORLD, &early[i]));
        }
    }
    cut();
    if (test_rank != 0) {
        MPI_OK(MPI_Waitall(EACH / 2, early, MPI_STATUSES_IGNORE));
        for (int i = EACH / 2; i < EACH; i++) {
            int value[2] = {test_rank, i};
            MPI_OK(MPI_Send(value, 2, MPI_INT, 0, 10 * test_rank + i % 3, MPI_COMM_WORLD));
        }
    } else {
        int next[4] = {0}, of_tag[4][3] = {{0}};
        /* First half: any source, any tag: messages of one source come in order. */
        for (int n = 0; n < 3 * EACH / 2; n++) {
            MPI_Status status;
            int value[2] = {-1, -1}, count;
            MPI_OK(MPI_Recv(value, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            int from = status.MPI_SOURCE;
            MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
            CHECK_EQ(count, 2);
            CHECK_EQ(value[0], from);
            CHECK_EQ(value[1], next[from]);
            CHECK_EQ(status.MPI_TAG, 10 * from + value[1] % 3);
            next[from]++;
            of_tag[from][value[1] % 3]++;
        }
        /* Then by source and any tag, and by tag and any source. */
        for (int from = 1; from < 4; from++)
            while (next[from] < EACH) {
                MPI_Status status;
                int value[2];
                int by_tag = next[from] % 2;
                int tag = 10 * from + next[from] % 3;
                MPI_OK(MPI_Recv(value, 2, MPI_INT, by_tag ? MPI_ANY_SOURCE : from, by_tag ? tag : MPI_ANY_TAG,
                                MPI_COMM_WORLD, &status));
                CHECK_EQ(status.MPI_SOURCE, from);
                CHECK_EQ(status.MPI_TAG, tag);
                CHECK_EQ(value[1], next[from]);
                next[from]++;
            }
    }
    int sum = 0, one = EACH;
    MPI_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    test_add(&sum, sizeof sum);
    return test_finish("wildcards");
}

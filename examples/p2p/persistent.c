//#Ranks: 2
//#Cut: hold
//#Shows: persistent requests: started before the cut and completed after it, inactive ones, both started again
#include "../stasis_test.h"

enum { N = 2000, BIG = 300000, ROUNDS = 4 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int other = 1 - test_rank, index, flag;
    static char out[3][BIG], in[3][BIG];
    static const int n[3] = {N, BIG, 8};
    MPI_Request requests[6];
    MPI_Status statuses[6];
    for (int m = 0; m < 3; m++) {
        MPI_OK(MPI_Recv_init(in[m], n[m], MPI_BYTE, m == 2 ? MPI_ANY_SOURCE : other, m, MPI_COMM_WORLD, &requests[m]));
        if (m == 1)
            MPI_OK(MPI_Ssend_init(out[m], n[m], MPI_BYTE, other, m, MPI_COMM_WORLD, &requests[3 + m]));
        else
            MPI_OK(MPI_Send_init(out[m], n[m], MPI_BYTE, other, m, MPI_COMM_WORLD, &requests[3 + m]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int m = 0; m < 3; m++)
            test_fill(out[m], n[m], (uint32_t)(100 * round + 10 * m + test_rank));
        if (round == 1) {
            /* Two receives and one send are active at the cut, three requests are not. */
            MPI_OK(MPI_Startall(2, requests));
            MPI_OK(MPI_Start(&requests[3]));
            cut();
            MPI_OK(MPI_Startall(2, &requests[4]));
            MPI_OK(MPI_Start(&requests[2]));
        } else {
            MPI_OK(MPI_Startall(6, requests));
        }
        MPI_OK(MPI_Waitall(6, requests, statuses));
        for (int m = 0; m < 3; m++) {
            CHECK_EQ(statuses[m].MPI_SOURCE, other);
            CHECK(requests[m] != MPI_REQUEST_NULL, "a persistent request has gone");
            test_verify(in[m], n[m], (uint32_t)(100 * round + 10 * m + other));
        }
        /* Inactive requests are complete at once, with an empty status. */
        MPI_OK(MPI_Testany(6, requests, &index, &flag, &statuses[0]));
        CHECK(flag && index == MPI_UNDEFINED, "flag %d, index %d", flag, index);
    }
    for (int i = 0; i < 6; i++) {
        MPI_OK(MPI_Request_free(&requests[i]));
        CHECK(requests[i] == MPI_REQUEST_NULL, "not freed");
    }
    return test_finish("persistent");
}

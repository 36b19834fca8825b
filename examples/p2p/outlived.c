//#Ranks: 3
//#Cut: hold
//#Shows: a communicator that all members have freed before the cut, while requests of some still use it: an early message, a receive that nothing matches, persistent requests started again after it
#include "../stasis_test.h"

enum { N = 90000 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int other = 1 - test_rank, flag;
    static char out[N], in[N], again[N], never[N];
    MPI_Comm dup, another;
    MPI_Status status;
    MPI_Request sent, receive, unmatched, persistent[2];
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    test_fill(out, N, (uint32_t)test_rank);
    if (test_rank < 2) {
        MPI_OK(MPI_Irecv(in, N, MPI_BYTE, other, 1, dup, &receive));
        MPI_OK(MPI_Isend(out, N, MPI_BYTE, other, 1, dup, &sent));
        MPI_OK(MPI_Irecv(never, N, MPI_BYTE, MPI_ANY_SOURCE, 2, dup, &unmatched));
        MPI_OK(MPI_Recv_init(again, N, MPI_BYTE, other, 3, dup, &persistent[0]));
        MPI_OK(MPI_Send_init(out, N, MPI_BYTE, other, 3, dup, &persistent[1]));
    }
    /* Rank 2 has nothing on it; freeing others gives it the chance to forget the first. */
    MPI_OK(MPI_Comm_free(&dup));
    for (int i = 0; i < 3; i++) {
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &another));
        MPI_OK(MPI_Comm_free(&another));
    }

    cut();

    if (test_rank < 2) {
        MPI_OK(MPI_Wait(&receive, &status));
        CHECK_EQ(status.MPI_SOURCE, other);
        test_verify(in, N, (uint32_t)other);
        MPI_OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
        for (int round = 0; round < 2; round++) {
            memset(again, 0, N);
            MPI_OK(MPI_Startall(2, persistent));
            MPI_OK(MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE));
            test_verify(again, N, (uint32_t)other);
        }
        MPI_OK(MPI_Test(&unmatched, &flag, &status));
        CHECK_EQ(flag, 0);
        MPI_OK(MPI_Cancel(&unmatched));
        MPI_OK(MPI_Wait(&unmatched, &status));
        MPI_OK(MPI_Test_cancelled(&status, &flag));
        CHECK_EQ(flag, 1);
        MPI_OK(MPI_Request_free(&persistent[0]));
        MPI_OK(MPI_Request_free(&persistent[1]));
    }
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &another));
    MPI_OK(MPI_Comm_free(&another));
    return test_finish("outlived");
}

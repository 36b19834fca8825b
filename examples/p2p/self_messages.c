//#Ranks: 2
//#Cut: hold
//#Shows: messages from a rank to itself, on the world and on MPI_COMM_SELF, under way at the cut; MPI_PROC_NULL
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    MPI_Request sends[4], null_receive;
    MPI_Status status;
    static char out[4][100000], in[100000];
    static const int n[4] = {10, 100000, 10, 100000};
    for (int i = 0; i < 4; i++) {
        test_fill(out[i], n[i], (uint32_t)i);
        int me = i < 2 ? test_rank : 0;
        MPI_OK(MPI_Isend(out[i], n[i], MPI_BYTE, me, i, comms[i / 2], &sends[i]));
    }
    MPI_OK(MPI_Irecv(in, 10, MPI_BYTE, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &null_receive));
    cut();
    for (int i = 3; i >= 0; i--) {
        int me = i < 2 ? test_rank : 0;
        MPI_OK(MPI_Recv(in, n[i], MPI_BYTE, MPI_ANY_SOURCE, i, comms[i / 2], &status));
        CHECK_EQ(status.MPI_SOURCE, me);
        test_verify(in, n[i], (uint32_t)i);
    }
    MPI_OK(MPI_Waitall(4, sends, MPI_STATUSES_IGNORE));
    MPI_OK(MPI_Wait(&null_receive, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Recv(in, 10, MPI_BYTE, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_OK(MPI_Probe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    CHECK_EQ(status.MPI_TAG, MPI_ANY_TAG);
    return test_finish("self_messages");
}

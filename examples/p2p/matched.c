//#Ranks: 2
//#Cut: hold
//#Shows: matched messages in hand at the cut: several of one tag, large and empty ones, on an inter-communicator, from oneself, of nobody, and one whose MPI_Imrecv is under way
#include "../stasis_test.h"

enum { FEW = 4, N = 1000, BIG = 400000, PAIRS = 600 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int other = 1 - test_rank, count, flag;
    MPI_Comm inter;
    MPI_Status status;
    MPI_Request sends[FEW + 6], under_way, null_receive;
    MPI_Message same[FEW], large, empty, between, own, nobody, derived;
    MPI_Datatype every_other;
    static char out[FEW + 2][N], big_out[2][BIG], in[N], big_in[2][BIG];
    static int ints[PAIRS], scattered[2 * PAIRS];
    int n = 0;
    MPI_OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, other, 5, &inter));
    MPI_OK(MPI_Type_vector(PAIRS, 1, 2, MPI_INT, &every_other));
    MPI_OK(MPI_Type_commit(&every_other));
    for (int m = 0; m < FEW + 2; m++)
        test_fill(out[m], N, (uint32_t)(30 * test_rank + m));
    for (int m = 0; m < 2; m++)
        test_fill(big_out[m], BIG, (uint32_t)(30 * test_rank + 20 + m));
    for (int m = 0; m < PAIRS; m++)
        ints[m] = 5000 * test_rank + m;
    for (int m = 0; m < FEW; m++)
        MPI_OK(MPI_Isend(out[m], N - m, MPI_BYTE, other, 1, MPI_COMM_WORLD, &sends[n++]));
    MPI_OK(MPI_Isend(big_out[0], BIG, MPI_BYTE, other, 2, MPI_COMM_WORLD, &sends[n++]));
    MPI_OK(MPI_Isend(big_out[1], BIG, MPI_BYTE, other, 3, MPI_COMM_WORLD, &sends[n++]));
    MPI_OK(MPI_Isend(NULL, 0, MPI_INT, other, 4, MPI_COMM_WORLD, &sends[n++]));
    MPI_OK(MPI_Isend(out[FEW], N, MPI_BYTE, 0, 5, inter, &sends[n++]));
    MPI_OK(MPI_Isend(out[FEW + 1], N, MPI_BYTE, test_rank, 6, MPI_COMM_WORLD, &sends[n++]));
    MPI_OK(MPI_Isend(ints, PAIRS, MPI_INT, other, 7, MPI_COMM_WORLD, &sends[n++]));
    CHECK_EQ(n, FEW + 6);

    /* The last but two of one tag are taken in hand; the others stay where they are. */
    for (int m = 0; m < FEW - 2; m++) {
        MPI_OK(MPI_Mprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &same[m], &status));
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, N - m);
    }
    MPI_OK(MPI_Mprobe(other, 2, MPI_COMM_WORLD, &large, &status));
    MPI_OK(MPI_Mprobe(other, 3, MPI_COMM_WORLD, &same[FEW - 1], &status));
    MPI_OK(MPI_Imrecv(big_in[1], BIG, MPI_BYTE, &same[FEW - 1], &under_way));
    MPI_OK(MPI_Mprobe(other, 4, MPI_COMM_WORLD, &empty, &status));
    MPI_OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &between, &status));
    CHECK_EQ(status.MPI_SOURCE, 0);
    MPI_OK(MPI_Mprobe(test_rank, 6, MPI_COMM_WORLD, &own, &status));
    MPI_OK(MPI_Mprobe(MPI_PROC_NULL, 6, MPI_COMM_WORLD, &nobody, &status));
    CHECK(nobody == MPI_MESSAGE_NO_PROC, "another message of nobody");
    MPI_OK(MPI_Mprobe(other, 7, MPI_COMM_WORLD, &derived, &status));

    /* The peer's sends above may need this rank in MPI until it has matched all of them. */
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    cut();

    /* What was in hand is not seen by others, what was not comes next. */
    for (int m = FEW - 2; m < FEW; m++) {
        MPI_OK(MPI_Recv(in, N, MPI_BYTE, other, 1, MPI_COMM_WORLD, &status));
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, N - m);
        test_verify(in, count, (uint32_t)(30 * other + m));
    }
    MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    for (int m = FEW - 3; m >= 0; m--) {
        MPI_OK(MPI_Mrecv(in, N, MPI_BYTE, &same[m], &status));
        CHECK(same[m] == MPI_MESSAGE_NULL, "message %d is still there", m);
        CHECK_EQ(status.MPI_SOURCE, other);
        CHECK_EQ(status.MPI_TAG, 1);
        test_verify(in, N - m, (uint32_t)(30 * other + m));
    }
    MPI_OK(MPI_Mrecv(big_in[0], BIG, MPI_BYTE, &large, &status));
    test_verify(big_in[0], BIG, (uint32_t)(30 * other + 20));
    MPI_OK(MPI_Wait(&under_way, &status));
    MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, BIG);
    test_verify(big_in[1], BIG, (uint32_t)(30 * other + 21));
    MPI_OK(MPI_Mrecv(NULL, 0, MPI_INT, &empty, &status));
    MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == 0 && status.MPI_TAG == 4, "%d from tag %d", count, status.MPI_TAG);
    MPI_OK(MPI_Mrecv(in, N, MPI_BYTE, &between, &status));
    test_verify(in, N, (uint32_t)(30 * other + FEW));
    MPI_OK(MPI_Mrecv(in, N, MPI_BYTE, &own, &status));
    CHECK_EQ(status.MPI_SOURCE, test_rank);
    test_verify(in, N, (uint32_t)(30 * test_rank + FEW + 1));
    MPI_OK(MPI_Imrecv(in, N, MPI_BYTE, &nobody, &null_receive));
    MPI_OK(MPI_Wait(&null_receive, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    memset(scattered, 0xff, sizeof scattered);
    MPI_OK(MPI_Mrecv(scattered, 1, every_other, &derived, &status));
    for (int m = 0; m < PAIRS; m++) {
        CHECK_EQ(scattered[2 * m], 5000 * other + m);
        CHECK_EQ(scattered[2 * m + 1], -1);
    }
    MPI_OK(MPI_Waitall(n, sends, MPI_STATUSES_IGNORE));
    MPI_OK(MPI_Type_free(&every_other));
    MPI_OK(MPI_Comm_free(&inter));
    return test_finish("matched");
}

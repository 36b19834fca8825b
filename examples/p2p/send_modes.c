//#Ranks: 2
//#Cut: hold
//#Shows: buffered, synchronous, ready and packed sends under way at the cut
#include "../stasis_test.h"

enum { N = 3000, ROUNDS = 3 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int other = 1 - test_rank;
    static char out[6][N], in[6][N];
    int space;
    MPI_OK(MPI_Pack_size(N, MPI_BYTE, MPI_COMM_WORLD, &space));
    space = 4 * (space + MPI_BSEND_OVERHEAD);
    void *attached = malloc(space), *detached = NULL;
    MPI_OK(MPI_Buffer_attach(attached, space));
    for (int m = 0; m < 6; m++)
        test_fill(out[m], N, (uint32_t)(10 * test_rank + m));
    MPI_Request requests[5], ready;

    /* The receive for the ready send is posted on both sides before either sends. */
    MPI_OK(MPI_Irecv(in[4], N, MPI_BYTE, other, 4, MPI_COMM_WORLD, &ready));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Bsend(out[0], N, MPI_BYTE, other, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Ibsend(out[1], N, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[0]));
    MPI_OK(MPI_Issend(out[2], N, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[1]));
    MPI_OK(MPI_Isend(out[3], N, MPI_BYTE, other, 3, MPI_COMM_WORLD, &requests[2]));
    MPI_OK(MPI_Irsend(out[4], N, MPI_BYTE, other, 4, MPI_COMM_WORLD, &requests[3]));
    /* Packed: an int and bytes in one message. */
    char packed[N + 100], arrived[N + 100];
    int position = 0, number = 77 + test_rank;
    MPI_OK(MPI_Pack(&number, 1, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD));
    MPI_OK(MPI_Pack(out[5], N, MPI_BYTE, packed, sizeof packed, &position, MPI_COMM_WORLD));
    MPI_OK(MPI_Isend(packed, position, MPI_PACKED, other, 5, MPI_COMM_WORLD, &requests[4]));
    cut();
    MPI_Status status;
    int count;
    MPI_OK(MPI_Recv(arrived, sizeof arrived, MPI_PACKED, other, 5, MPI_COMM_WORLD, &status));
    MPI_OK(MPI_Get_count(&status, MPI_PACKED, &count));
    CHECK_EQ(count, position);
    position = number = 0;
    MPI_OK(MPI_Unpack(arrived, count, &position, &number, 1, MPI_INT, MPI_COMM_WORLD));
    MPI_OK(MPI_Unpack(arrived, count, &position, in[5], N, MPI_BYTE, MPI_COMM_WORLD));
    CHECK_EQ(number, 77 + other);
    for (int m = 3; m >= 0; m--)
        MPI_OK(MPI_Recv(in[m], N, MPI_BYTE, other, m, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Wait(&ready, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Waitall(5, requests, MPI_STATUSES_IGNORE));
    for (int m = 0; m < 6; m++)
        test_verify(in[m], N, (uint32_t)(10 * other + m));
    /* The attached buffer is still attached, and works. */
    for (int round = 0; round < ROUNDS; round++) {
        MPI_OK(MPI_Bsend(out[round], N, MPI_BYTE, other, 20 + round, MPI_COMM_WORLD));
        MPI_OK(MPI_Recv(in[round], N, MPI_BYTE, other, 20 + round, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(in[round], N, (uint32_t)(10 * other + round));
    }
    int size = 0;
    MPI_OK(MPI_Buffer_detach(&detached, &size));
    CHECK(detached == attached && size == space, "another buffer came back: %d bytes", size);
    return test_finish("send_modes");
}

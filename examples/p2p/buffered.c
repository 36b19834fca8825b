//#Ranks: 2
//#Cut: hold
//#Shows: buffered sends: a buffer of the exact size that is full at the cut, persistent ones, and a rank blocked in MPI_Buffer_detach
//#Variant: full; matrix=full
//#Variant: detach
#include "../stasis_test.h"

enum { FEW = 6, BIG = 200000 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK(argc > 1, "which variant?");
    int other = 1 - test_rank, size = 0, room = 0, detached_size;
    static char out[FEW][BIG], in[BIG];
    static const int n[FEW] = {0, 10, BIG, 5000, BIG, 1};
    MPI_Request requests[2];
    for (int m = 0; m < FEW; m++) {
        test_fill(out[m], n[m], (uint32_t)(10 * test_rank + m));
        MPI_OK(MPI_Pack_size(n[m], MPI_BYTE, MPI_COMM_WORLD, &size));
        room += size + MPI_BSEND_OVERHEAD;
    }
    char *buffer = malloc(room), *detached = NULL;
    MPI_OK(MPI_Buffer_attach(buffer, room));
    for (int m = 0; m < FEW - 2; m++)
        MPI_OK(MPI_Bsend(out[m], n[m], MPI_BYTE, other, m, MPI_COMM_WORLD));
    MPI_OK(MPI_Ibsend(out[FEW - 2], n[FEW - 2], MPI_BYTE, other, FEW - 2, MPI_COMM_WORLD, &requests[0]));
    MPI_OK(MPI_Bsend_init(out[FEW - 1], n[FEW - 1], MPI_BYTE, other, FEW - 1, MPI_COMM_WORLD, &requests[1]));
    MPI_OK(MPI_Start(&requests[1]));
    /* All are complete for the sender, who may use its memory again. */
    MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int m = 0; m < FEW; m++)
        memset(out[m], 0, BIG);

    if (test_is(argc, argv, "detach") && test_rank == 0) {
        /* Rank 1 receives nothing before it may go on. */
        cut_announce();
        MPI_OK(MPI_Buffer_detach(&detached, &detached_size));
    } else {
        cut();
    }
    for (int m = FEW - 1; m >= 0; m--) {
        MPI_OK(MPI_Recv(in, BIG, MPI_BYTE, other, m, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(in, n[m], (uint32_t)(10 * other + m));
    }
    if (!detached)
        MPI_OK(MPI_Buffer_detach(&detached, &detached_size));
    CHECK(detached == buffer && detached_size == room, "another buffer came back: %d bytes", detached_size);

    /* Another buffer, and the persistent request once more. */
    MPI_OK(MPI_Buffer_attach(buffer, room));
    test_fill(out[FEW - 1], n[FEW - 1], (uint32_t)(10 * test_rank + 7));
    MPI_OK(MPI_Start(&requests[1]));
    MPI_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    MPI_OK(MPI_Recv(in, BIG, MPI_BYTE, other, FEW - 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    test_verify(in, n[FEW - 1], (uint32_t)(10 * other + 7));
    MPI_OK(MPI_Request_free(&requests[1]));
    MPI_OK(MPI_Buffer_detach(&detached, &detached_size));
    free(buffer);
    return test_finish(argv[1]);
}

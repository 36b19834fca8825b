//#Ranks: 3
//#Shows: a ring with messages in flight at the cut: sent, not yet received, several tags out of order
//#Variant: eager; cut=hold; matrix=full
//#Variant: rendezvous; cut=hold; matrix=full
//#Variant: crowd_16; ranks=16; cut=hold; modes=continue,restart,migrate,stop; timeout=300
//#Variant: crowd_32; ranks=32; cut=hold; modes=restart,migrate; timeout=300
//#Variant: crowd_64; ranks=64; cut=hold; modes=restart,migrate; timeout=300
//#Variant: relays; ranks=8; fan-out=2; cut=hold; modes=continue,restart,migrate,stop
#include "../stasis_test.h"

/* All are sent before the cut and received after it, last tag first. */
enum { MESSAGES = 6 };
static const size_t eager_sizes[MESSAGES] = {0, 1, 8, 100, 1000, 3000};
static const size_t rendezvous_sizes[MESSAGES] = {100000, 8, 1000000, 300001, 64, 2000000};

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    const size_t *sizes = test_is(argc, argv, "eager") ? eager_sizes : rendezvous_sizes;
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    char *out[MESSAGES];
    MPI_Request requests[MESSAGES];

    for (int m = 0; m < MESSAGES; m++) {
        out[m] = malloc(sizes[m] + 1);
        test_fill(out[m], sizes[m], (uint32_t)(test_rank * 100 + m));
        MPI_OK(MPI_Isend(out[m], (int)sizes[m], MPI_BYTE, right, m, MPI_COMM_WORLD, &requests[m]));
    }
    cut();
    for (int m = MESSAGES - 1; m >= 0; m--) {
        MPI_Status status;
        int count = -1;
        char *in = malloc(sizes[m] + 1);
        memset(in, 0xee, sizes[m] + 1);
        MPI_OK(MPI_Recv(in, (int)sizes[m], MPI_BYTE, left, m, MPI_COMM_WORLD, &status));
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, sizes[m]);
        CHECK_EQ(status.MPI_SOURCE, left);
        CHECK_EQ(status.MPI_TAG, m);
        CHECK_EQ((unsigned char)in[sizes[m]], 0xee);
        test_verify(in, sizes[m], (uint32_t)(left * 100 + m));
        free(in);
    }
    MPI_OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    for (int m = 0; m < MESSAGES; m++) {
        test_verify(out[m], sizes[m], (uint32_t)(test_rank * 100 + m));
        free(out[m]);
    }
    return test_finish(argv[1]);
}

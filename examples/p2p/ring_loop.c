//#Ranks: 2
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle, ten, stop
//#Matrix: full
//#Shows: a token ring that never stops for the checkpoint: the cut falls anywhere, again and again
#include "../stasis_test.h"

enum { SIZES = 5 };
static const int sizes[SIZES] = {8, 1024, 70000, 16, 300000};

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    char *out = malloc(sizes[4]), *in = malloc(sizes[4]);
    for (int step = 0; cut_more(step, 400, MPI_COMM_WORLD); step++) {
        int n = sizes[step % SIZES];
        MPI_Request requests[2];
        test_fill(out, n, (uint32_t)(step * 7 + test_rank));
        MPI_OK(MPI_Irecv(in, n, MPI_BYTE, left, step % 1000, MPI_COMM_WORLD, &requests[0]));
        if (step % 2) {
            MPI_OK(MPI_Isend(out, n, MPI_BYTE, right, step % 1000, MPI_COMM_WORLD, &requests[1]));
            MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        } else {
            MPI_OK(MPI_Send(out, n, MPI_BYTE, right, step % 1000, MPI_COMM_WORLD));
            MPI_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        }
        test_verify(in, n, (uint32_t)(step * 7 + left));
    }
    return test_finish_loop("ring_loop");
}

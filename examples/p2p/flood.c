//#Ranks: 2
//#Cut: hold
//#Shows: three thousand small messages under way at the cut, all in order afterwards
#include "../stasis_test.h"

enum { MESSAGES = 3000, LEN = 64 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    static char out[MESSAGES][LEN], in[LEN];
    static MPI_Request requests[MESSAGES];
    if (test_rank == 0) {
        for (int i = 0; i < MESSAGES; i++) {
            test_fill(out[i], LEN, (uint32_t)i);
            MPI_OK(MPI_Isend(out[i], LEN, MPI_BYTE, 1, i % 2, MPI_COMM_WORLD, &requests[i]));
        }
        cut();
        MPI_OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    } else {
        cut();
        for (int tag = 1; tag >= 0; tag--)
            for (int i = tag; i < MESSAGES; i += 2) {
                MPI_OK(MPI_Recv(in, LEN, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                test_verify(in, LEN, (uint32_t)i);
            }
    }
    return test_finish("flood");
}

//#Mpi: mpich
//#Vendor: gnu_123
//#Cut: loop
//#Shows: a program that a vendor's compiler wrapper has linked with libmpi_gnu_123.so.12, as on HPE Cray systems
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    enum { N = 1000 };
    int in[N], out[N], all[N];
    test_start(&argc, &argv);
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    for (int step = 0; cut_more(step, 300, MPI_COMM_WORLD); step++) {
        test_fill(out, sizeof out, (uint32_t)(step * 7 + test_rank));
        MPI_OK(MPI_Sendrecv(out, N, MPI_INT, right, 3, in, N, MPI_INT, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(in, sizeof in, (uint32_t)(step * 7 + left));
        MPI_OK(MPI_Allreduce(in, all, N, MPI_INT, MPI_BXOR, MPI_COMM_WORLD));
        if (step < 300)
            test_add(all, sizeof all);
    }
    return test_finish_loop("names");
}

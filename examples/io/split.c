//#Ranks: 2
//#Cut: hold
//#Shows: the cut falls between the two halves of split collective operations
//#Variant: at
//#Variant: own
//#Variant: ordered
#include "../stasis_test.h"

enum { N = 1000 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int at = test_is(argc, argv, "at"), own = test_is(argc, argv, "own"), count;
    MPI_File file, other;
    MPI_Status status;
    static unsigned char out[N], in[N], more[N];
    const MPI_Offset place = test_rank * (MPI_Offset)N;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "split.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "other.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &other));
    test_fill(more, N, 7 + (uint32_t)test_rank);
    MPI_OK(MPI_File_write_at_all(other, place, more, N, MPI_BYTE, &status));
    MPI_OK(MPI_File_sync(other));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(other));
    test_fill(out, N, (uint32_t)test_rank);
    memset(more, 0, N);

    /* One is written and another read at the same time. */
    if (at) {
        MPI_OK(MPI_File_write_at_all_begin(file, place, out, N, MPI_BYTE));
        MPI_OK(MPI_File_read_at_all_begin(other, place, more, N, MPI_BYTE));
    } else if (own) {
        MPI_OK(MPI_File_seek(file, place, MPI_SEEK_SET));
        MPI_OK(MPI_File_seek(other, place, MPI_SEEK_SET));
        MPI_OK(MPI_File_write_all_begin(file, out, N, MPI_BYTE));
        MPI_OK(MPI_File_read_all_begin(other, more, N, MPI_BYTE));
    } else {
        MPI_OK(MPI_File_write_ordered_begin(file, out, N, MPI_BYTE));
        MPI_OK(MPI_File_read_ordered_begin(other, more, N, MPI_BYTE));
    }
    cut();
    if (at) {
        MPI_OK(MPI_File_read_at_all_end(other, more, &status));
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, N);
        MPI_OK(MPI_File_write_at_all_end(file, out, &status));
    } else if (own) {
        MPI_OK(MPI_File_write_all_end(file, out, &status));
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, N);
        MPI_OK(MPI_File_read_all_end(other, more, MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_File_read_ordered_end(other, more, &status));
        MPI_OK(MPI_File_write_ordered_end(file, out, &status));
    }
    test_verify(more, N, 7 + (uint32_t)test_rank);
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_File_read_at(file, (1 - test_rank) * (MPI_Offset)N, in, N, MPI_BYTE, &status));
    test_verify(in, N, 1 - (uint32_t)test_rank);
    MPI_OK(MPI_File_close(&other));
    MPI_OK(MPI_File_close(&file));
    return test_finish(argv[1]);
}

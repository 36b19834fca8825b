//#Ranks: 3
//#Cut: hold
//#Shows: the shared pointer, moved by one rank alone and by all in order, stands where it stood, although the file is open a second time
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_File file, second;
    MPI_Status status;
    MPI_Offset position, size;
    int record[4], got[4], seen[64] = {0};
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "shared.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "shared.dat", MPI_MODE_RDWR, MPI_INFO_NULL, &second));
    MPI_OK(MPI_File_set_view(file, 16, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));

    /* Rank 0 alone writes two records; the others have never used the pointer themselves. */
    for (int i = 0; test_rank == 0 && i < 2; i++) {
        for (int k = 0; k < 4; k++)
            record[k] = 100 + 10 * i + k;
        MPI_OK(MPI_File_write_shared(file, record, 4, MPI_INT, &status));
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));

    cut();

    /* All write one, in the order of their ranks. */
    for (int k = 0; k < 4; k++)
        record[k] = 100 + 10 * (2 + test_rank) + k;
    MPI_OK(MPI_File_write_ordered(file, record, 4, MPI_INT, &status));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_get_position_shared(file, &position));
    CHECK_EQ(position, 4 * (2 + test_size));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 16 + (2 + test_size) * (MPI_Offset)sizeof record);

    /* Everybody reads what comes next, until all is read: each record is somebody's. */
    MPI_OK(MPI_File_seek_shared(file, 4, MPI_SEEK_SET));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (;;) {
        int count;
        MPI_OK(MPI_File_read_shared(file, got, 4, MPI_INT, &status));
        MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
        if (count == 0)
            break;
        CHECK_EQ(count, 4);
        CHECK_EQ(got[3], got[0] + 3);
        seen[(got[0] - 100) / 10]++;
    }
    MPI_OK(MPI_Allreduce(MPI_IN_PLACE, seen, 64, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < 64; i++)
        CHECK_EQ(seen[i], i > 0 && i < 2 + test_size);
    MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_read_ordered(file, got, 4, MPI_INT, &status));
    CHECK_EQ(got[0], 100 + 10 * test_rank);
    test_add(got, sizeof got);
    MPI_OK(MPI_File_close(&second));
    MPI_OK(MPI_File_close(&file));
    return test_finish("shared");
}

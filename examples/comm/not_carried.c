//#Ranks: 2
//#Modes: plain, continue
//#Shows: what is not carried across a checkpoint yet: one is refused by name while a file is open, the job is unharmed
//#Cut: refused file
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int other = 1 - test_rank;
    MPI_File file;
    MPI_Status status;
    int value = -1, count;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "shared.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_write_at_all(file, test_rank * (MPI_Offset)sizeof(int), &test_rank, 1, MPI_INT, &status));
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    cut();
    MPI_OK(MPI_File_read_at(file, other * (MPI_Offset)sizeof(int), &value, 1, MPI_INT, &status));
    MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 1);
    CHECK_EQ(value, other);
    MPI_OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL, "not closed");
    return test_finish("not_carried");
}

//#Ranks: 2
//#Modes: continue
//#Cut: refused removed.dat
//#Shows: a file that was removed while it is open could not be opened again: the checkpoint is refused by its name, the job is unharmed
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_File file;
    int value = -1;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "removed.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_write_at_all(file, test_rank * 4, &test_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 0)
        MPI_OK(MPI_File_delete("removed.dat", MPI_INFO_NULL));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    cut();
    MPI_OK(MPI_File_read_at(file, (1 - test_rank) * 4, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(value, 1 - test_rank);
    MPI_OK(MPI_File_close(&file));
    return test_finish("removed");
}

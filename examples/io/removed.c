//#Ranks: 2
//#Modes: continue
//#Cut: refused removed.dat
//#Shows: a file that was removed or replaced while it is open could not be opened again: the checkpoint is refused by its name, the job is unharmed
//#Variant: gone
//#Variant: replaced
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
    if (test_rank == 0 && test_is(argc, argv, "replaced")) {
        int other = open("removed.dat", O_CREAT | O_WRONLY | O_TRUNC, 0600);
        CHECK(other >= 0);
        CHECK_EQ(write(other, "another file", 12), 12);
        CHECK_EQ(close(other), 0);
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    cut();
    MPI_OK(MPI_File_read_at(file, (1 - test_rank) * 4, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(value, 1 - test_rank);
    MPI_OK(MPI_File_close(&file));
    return test_finish("removed");
}

//#Ranks: 4
//#Cut: hold
//#Shows: files of overlapping communicators, in other orders of ranks, freed since; the directory has changed since they were opened; one file open twice
#include "../stasis_test.h"

#include <sys/stat.h>

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Comm halves, odds;
    MPI_File file, other, again;
    MPI_Group group;
    int rank, size, value, got = -1;
    char name[32];
    mkdir("elsewhere", 0755);
    /* Two halves, turned round; and one over the odd ranks only. */
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, test_rank / 2, -test_rank, &halves));
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, test_rank % 2 ? 0 : MPI_UNDEFINED, test_rank, &odds));
    snprintf(name, sizeof name, "half.%d", test_rank / 2);
    if (odds != MPI_COMM_NULL)
        MPI_OK(MPI_File_open(odds, "odds", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &other));
    MPI_OK(MPI_File_open(halves, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_Comm_rank(halves, &rank));
    MPI_OK(MPI_Comm_free(&halves));
    value = 10 * test_rank;
    MPI_OK(MPI_File_write_at_all(file, rank * 4, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR, MPI_INFO_NULL, &again));
    if (odds != MPI_COMM_NULL)
        MPI_OK(MPI_Comm_free(&odds));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_EQ(chdir("elsewhere"), 0);

    cut();

    MPI_OK(MPI_File_get_group(file, &group));
    MPI_OK(MPI_Group_size(group, &size));
    CHECK_EQ(size, 2);
    MPI_OK(MPI_Group_rank(group, &rank));
    CHECK_EQ(rank, 1 - test_rank % 2);
    MPI_OK(MPI_Group_free(&group));
    MPI_OK(MPI_File_read_at(again, (1 - rank) * 4, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 10 * (test_rank ^ 1));
    MPI_OK(MPI_File_close(&again));
    MPI_OK(MPI_File_read_at_all(file, rank * 4, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 10 * test_rank);
    if (test_rank % 2) {
        value = 7 * test_rank;
        MPI_OK(MPI_File_write_ordered(other, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_sync(other));
        MPI_OK(MPI_File_seek(other, 0, MPI_SEEK_SET));
        MPI_OK(MPI_File_read_at_all(other, test_rank / 2 * 4, &got, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(got, value);
        MPI_OK(MPI_File_close(&other));
    }
    MPI_OK(MPI_File_close(&file));
    test_add(&got, sizeof got);
    return test_finish("groups");
}

//#Ranks: 2
//#Cut: hold
//#Shows: what files were opened with: append, delete on close, sequential access, reading only, atomicity; and one that is a rank's own
//#Variant: append
//#Variant: delete
//#Variant: sequential
//#Variant: read
//#Variant: atomic
//#Variant: self
#include "../stasis_test.h"

static MPI_File open_as(MPI_Comm comm, const char *name, int amode)
{
    MPI_File file;
    MPI_OK(MPI_File_open(comm, name, amode, MPI_INFO_NULL, &file));
    return file;
}

static MPI_Offset size_of(MPI_File file)
{
    MPI_Offset size;
    MPI_OK(MPI_File_get_size(file, &size));
    return size;
}

/* Gives the file eight bytes. */
static void prepare(const char *name)
{
    MPI_File file = open_as(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY);
    if (test_rank == 0)
        MPI_OK(MPI_File_write_at(file, 0, "01234567", 8, MPI_CHAR, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
}

static void append(void)
{
    MPI_Offset position;
    prepare("append.dat");
    MPI_File file = open_as(MPI_COMM_WORLD, "append.dat", MPI_MODE_RDWR | MPI_MODE_APPEND);
    char text[17] = "";
    MPI_OK(MPI_File_get_position(file, &position));
    CHECK_EQ(position, 8);
    if (test_rank == 0)
        MPI_OK(MPI_File_write(file, "89", 2, MPI_CHAR, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    cut();
    MPI_OK(MPI_File_get_position(file, &position));
    CHECK_EQ(position, test_rank == 0 ? 10 : 8);
    /* The shared pointer has not moved since the file was opened. */
    MPI_OK(MPI_File_get_position_shared(file, &position));
    CHECK_EQ(position, 8);
    if (test_rank == 0)
        MPI_OK(MPI_File_write(file, "abcdef", 6, MPI_CHAR, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(file));
    CHECK_EQ(size_of(file), 16);
    MPI_OK(MPI_File_read_at_all(file, 0, text, 16, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_EQ(strcmp(text, "0123456789abcdef"), 0);
    MPI_OK(MPI_File_close(&file));
}

static void delete(void)
{
    int amode, value = -1;
    const int all = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_EXCL | MPI_MODE_DELETE_ON_CLOSE;
    MPI_File file = open_as(MPI_COMM_WORLD, "scratch.dat", all);
    MPI_OK(MPI_File_write_at_all(file, test_rank * 4, &test_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    cut();
    MPI_OK(MPI_File_get_amode(file, &amode));
    CHECK_EQ(amode, all);
    MPI_OK(MPI_File_read_at(file, (1 - test_rank) * 4, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(value, 1 - test_rank);
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(access("scratch.dat", F_OK) != 0, "still there");
}

static void sequential(void)
{
    char text[5] = "";
    prepare("tape.dat");
    MPI_File file = open_as(MPI_COMM_WORLD, "tape.dat", MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    MPI_OK(MPI_File_read_ordered(file, text, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_EQ(text[0], '0' + test_rank);
    cut();
    MPI_OK(MPI_File_read_ordered(file, text, 1, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_EQ(text[0], '2' + test_rank);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 1)
        MPI_OK(MPI_File_read_shared(file, text, 4, MPI_CHAR, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Bcast(text, 4, MPI_CHAR, 1, MPI_COMM_WORLD));
    CHECK_EQ(strcmp(text, "4567"), 0);
    MPI_OK(MPI_File_close(&file));
}

static void read_only(void)
{
    char text[9] = "";
    prepare("read.dat");
    MPI_File file = open_as(MPI_COMM_WORLD, "read.dat", MPI_MODE_RDONLY | MPI_MODE_UNIQUE_OPEN);
    MPI_OK(MPI_File_read(file, text, 3, MPI_CHAR, MPI_STATUS_IGNORE));
    cut();
    MPI_OK(MPI_File_read(file, text + 3, 5, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_EQ(strcmp(text, "01234567"), 0);
    CHECK(MPI_File_write_at(file, 0, "x", 1, MPI_CHAR, MPI_STATUS_IGNORE) != MPI_SUCCESS, "written");
    MPI_OK(MPI_File_close(&file));
}

static void atomic(void)
{
    int flag = -1, value = -1;
    MPI_File file = open_as(MPI_COMM_WORLD, "atomic.dat", MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_OK(MPI_File_get_atomicity(file, &flag));
    CHECK_EQ(flag, 0);
    MPI_OK(MPI_File_set_atomicity(file, 1));
    cut();
    MPI_OK(MPI_File_get_atomicity(file, &flag));
    CHECK_EQ(flag, 1);
    MPI_OK(MPI_File_write_at(file, test_rank * 4, &test_rank, 1, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_read_at(file, (1 - test_rank) * 4, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(value, 1 - test_rank);
    MPI_OK(MPI_File_close(&file));
}

/* Every rank has files of its own, and of another number of them. */
static void self(void)
{
    MPI_File files[3];
    MPI_Status status;
    char name[32], text[8] = "";
    int n = 1 + test_rank;
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "own.%d.%d", test_rank, i);
        files[i] = open_as(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
        MPI_OK(MPI_File_write_all(files[i], name, 5, MPI_CHAR, &status));
    }
    cut();
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "own.%d.%d", test_rank, i);
        MPI_OK(MPI_File_write(files[i], name + 5, 2, MPI_CHAR, &status));
        MPI_OK(MPI_File_read_at(files[i], 0, text, 7, MPI_CHAR, &status));
        CHECK_EQ(strcmp(text, name), 0);
        CHECK_EQ(size_of(files[i]), 7);
        MPI_OK(MPI_File_close(&files[i]));
    }
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    if (test_is(argc, argv, "append"))
        append();
    else if (test_is(argc, argv, "delete"))
        delete();
    else if (test_is(argc, argv, "sequential"))
        sequential();
    else if (test_is(argc, argv, "read"))
        read_only();
    else if (test_is(argc, argv, "atomic"))
        atomic();
    else
        self();
    return test_finish(argv[1]);
}

//#Ranks: 3
//#Shows: a checkpoint is taken while two of three ranks wait in a collective operation on a file and the third stays outside
//#Cut: hold
//#Variant: open; matrix=full; modes=plain, continue, restart, migrate, cycle, ten
//#Variant: close; modes=plain, continue, restart, migrate, cycle
//#Variant: delete
//#Variant: write_at_all; modes=plain, continue, restart, migrate, cycle, ten
//#Variant: write_all; modes=plain, continue, restart, migrate, cycle, ten
//#Variant: write_all_begin; modes=plain, continue, restart, migrate, cycle
//#Variant: read_at_all
//#Variant: read_all; modes=plain, continue, restart, migrate, cycle
//#Variant: set_view
//#Variant: set_size
#include "../late.h"

enum { N = 50 };

static int in[N], out[N];

static int value(int rank, int i, int round) { return 10000 * round + 100 * rank + i; }

static void fill(int round)
{
    for (int i = 0; i < N; i++)
        in[i] = value(test_rank, i, round);
}

/* What is in the file is what all ranks have written, element by element in turn or block by block. */
static void verify(MPI_File file, int round, MPI_Offset block, int in_turn)
{
    int r = (test_rank + 1) % test_size, p = test_size;
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < N; i++) {
        MPI_Offset at = in_turn ? block * p * N + (MPI_Offset)i * p + r : block * p * N + r * N + i;
        MPI_OK(MPI_File_read_at(file, at, out, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_EQ(out[0], value(r, i, round));
        test_add(out, sizeof out[0]);
    }
}

int main(int argc, char **argv)
{
    const char *path = "late_member.dat";
    MPI_File file = MPI_FILE_NULL;
    MPI_Datatype turns;
    MPI_Offset size, at;
    test_start(&argc, &argv);
    int r = test_rank, p = test_size;
    const char *name = argc > 1 ? argv[1] : "open";
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | (strcmp(name, "delete") ? 0 : MPI_MODE_DELETE_ON_CLOSE);
    /* The ranks' elements in turn, so that a library has to exchange what it writes. */
    MPI_OK(MPI_Type_create_resized(MPI_INT, 0, p * (MPI_Aint)sizeof(int), &turns));
    MPI_OK(MPI_Type_commit(&turns));
    if (strcmp(name, "open")) {
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
        MPI_OK(MPI_File_set_view(file, r * (MPI_Offset)sizeof(int), MPI_INT, turns, "native", MPI_INFO_NULL));
        fill(0);
        MPI_OK(MPI_File_write_all(file, in, N, MPI_INT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    late_begin();
    fill(1);
    if (!strcmp(name, "open")) {
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file));
        MPI_OK(MPI_File_write_at_all(file, r * (MPI_Offset)sizeof in, in, N, MPI_INT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        verify(file, 1, 0, 0);
    } else if (!strcmp(name, "write_at_all")) {
        MPI_OK(MPI_File_write_at_all(file, N, in, N, MPI_INT, MPI_STATUS_IGNORE));
    } else if (!strcmp(name, "write_all")) {
        MPI_OK(MPI_File_write_all(file, in, N, MPI_INT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_get_position(file, &at));
        CHECK_EQ(at, 2 * N);
    } else if (!strcmp(name, "write_all_begin")) {
        MPI_OK(MPI_File_write_all_begin(file, in, N, MPI_INT));
        MPI_OK(MPI_File_write_all_end(file, in, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_get_position(file, &at));
        CHECK_EQ(at, 2 * N);
    } else if (!strcmp(name, "read_at_all") || !strcmp(name, "read_all")) {
        if (!strcmp(name, "read_at_all")) {
            MPI_OK(MPI_File_read_at_all(file, 0, out, N, MPI_INT, MPI_STATUS_IGNORE));
        } else {
            MPI_OK(MPI_File_seek(file, 1, MPI_SEEK_SET));
            MPI_OK(MPI_File_read_all(file, out + 1, N - 1, MPI_INT, MPI_STATUS_IGNORE));
            MPI_OK(MPI_File_get_position(file, &at));
            CHECK_EQ(at, N);
            out[0] = value(r, 0, 0);
        }
        for (int i = 0; i < N; i++)
            CHECK_EQ(out[i], value(r, i, 0));
    } else if (!strcmp(name, "set_view")) {
        MPI_OK(MPI_File_set_view(file, 4 * p * N, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        MPI_OK(MPI_File_write_at_all(file, r * N, in, N, MPI_INT, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        verify(file, 1, 1, 0);
    } else if (!strcmp(name, "set_size")) {
        MPI_OK(MPI_File_set_size(file, 12345));
        MPI_OK(MPI_File_get_size(file, &size));
        CHECK_EQ(size, 12345);
    }
    if (!strncmp(name, "write", 5)) {
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        verify(file, 1, 1, 1);
        verify(file, 0, 0, 1);
    }
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (!strcmp(name, "delete"))
        CHECK_EQ(access(path, F_OK), -1);
    late_end();
    MPI_OK(MPI_Type_free(&turns));
    return test_finish(name);
}

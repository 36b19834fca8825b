//#Ranks: 2
//#Mpi: openmpi
//#Cut: none
//#Compare: none
//#Modes: plain
//#Shows: MPI calls that are composed of several below, once each, with what they must come to: the cases `crossings/` cut them between any two of these
//#Variant: window
//#Variant: file
//#Variant: persistent
#include "../stasis_test.h"

enum { N = 50 };

static void windows(void)
{
    double *memory, ones[N], before[N];
    struct { double value; int place; } pair = {0, 0}, had;
    int *ints, one = 1, was, two = 2;
    MPI_Win win, words;
    MPI_OK(MPI_Win_allocate(4 * N * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    MPI_OK(MPI_Win_allocate(4 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &ints, &words));
    for (int i = 0; i < 4 * N; i++)
        memory[i] = 0;
    for (int i = 0; i < 4; i++)
        ints[i] = 0;
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Win_lock_all(0, win));
    MPI_OK(MPI_Win_lock_all(0, words));
    for (int target = 0; target < test_size; target++) {
        MPI_OK(MPI_Accumulate(ones, N, MPI_DOUBLE, target, 0, N, MPI_DOUBLE, MPI_SUM, win));
        MPI_OK(MPI_Get_accumulate(ones, N, MPI_DOUBLE, before, N, MPI_DOUBLE, target, N, N, MPI_DOUBLE, MPI_SUM, win));
        MPI_OK(MPI_Win_flush(target, win));
        CHECK(before[0] == 0 || before[0] == 1, "fetched %g", before[0]);
        MPI_OK(MPI_Fetch_and_op(ones, before, MPI_DOUBLE, target, 2 * N, MPI_SUM, win));
        pair.value = test_rank + 1;
        pair.place = test_rank;
        MPI_OK(MPI_Get_accumulate(&pair, 1, MPI_DOUBLE_INT, &had, 1, MPI_DOUBLE_INT, target, 3 * N, 1, MPI_DOUBLE_INT,
                                  MPI_MAXLOC, win));
        MPI_OK(MPI_Win_flush(target, win));
        MPI_OK(MPI_Accumulate(&one, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_SUM, words));
        MPI_OK(MPI_Fetch_and_op(&two, &was, MPI_INT, target, 1, MPI_SUM, words));
        MPI_OK(MPI_Win_flush(target, words));
    }
    MPI_OK(MPI_Win_unlock_all(words));
    MPI_OK(MPI_Win_unlock_all(win));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, test_rank, 0, win));
    for (int i = 0; i < N; i++) {
        CHECK_EQ(memory[i], test_size);
        CHECK_EQ(memory[N + i], test_size);
        CHECK_EQ(memory[2 * N + i], i == 0 ? test_size : 0);
    }
    CHECK_EQ(memory[3 * N], test_size);
    MPI_OK(MPI_Win_unlock(test_rank, win));
    CHECK_EQ(ints[0], test_size);
    CHECK_EQ(ints[1], 2 * test_size);
    MPI_OK(MPI_Win_free(&words));
    MPI_OK(MPI_Win_free(&win));
}

static void one_file(const char *name)
{
    int values[N], read[N];
    MPI_File file;
    MPI_Offset size;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int i = 0; i < N; i++)
        values[i] = 1000 * test_rank + i;
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_write_ordered(file, values, N, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_write_at_all(file, (test_size + test_rank) * N, values, N, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_File_set_atomicity(file, 1));
    MPI_OK(MPI_File_read_at_all(file, (1 - test_rank) * N, read, N, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++)
        CHECK_EQ(read[i], 1000 * (1 - test_rank) + i);
    MPI_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 2 * test_size * N * (MPI_Offset)sizeof(int));
    MPI_OK(MPI_File_close(&file));
}

static void files(void)
{
    one_file("composed.1");
    one_file("composed.2");
    one_file("composed.3");
}

static void persistent(void)
{
    int other = 1 - test_rank, out[N], in[N];
    MPI_Request requests[2];
    MPI_OK(MPI_Send_init(out, N, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[0]));
    MPI_OK(MPI_Recv_init(in, N, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[1]));
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < N; i++)
            out[i] = 100 * round + test_rank + i;
        MPI_OK(MPI_Startall(2, requests));
        MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++)
            CHECK_EQ(in[i], 100 * round + other + i);
        test_add(in, sizeof in);
    }
    MPI_OK(MPI_Request_free(&requests[0]));
    MPI_OK(MPI_Request_free(&requests[1]));
    /* Who comes to its end first waits for the other, and for the checkpoint. */
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK(argc == 2, "which");
    if (!strcmp(argv[1], "window"))
        windows();
    else if (!strcmp(argv[1], "file"))
        files();
    else
        persistent();
    return test_finish("composed");
}

//#Ranks: 3
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle
//#Matrix: full
//#Shows: scratch files that are deleted after the checkpoint, and files that grow by collective, independent, ordered and non-blocking writes in a loop that the cut hits anywhere: in the end neither a byte too few nor one too many
#include "../stasis_test.h"

enum { N = 500 };

static int record[N], back[N];

static void make(int *values, int step, int rank, int which)
{
    for (int i = 0; i < N; i++)
        values[i] = 1000003 * step + 1009 * rank + 31 * which + i;
}

static void check(int step, int rank, int which)
{
    for (int i = 0; i < N; i++)
        CHECK_EQ(back[i], 1000003 * step + 1009 * rank + 31 * which + i);
}

static MPI_File scratch[2];

static void begin_scratch(int step)
{
    MPI_File *file = &scratch[step % 2];
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, step % 2 ? "scratch.1" : "scratch.0", amode, MPI_INFO_NULL, file));
    make(record, step, test_rank, 4);
    MPI_OK(MPI_File_write_at_all_begin(*file, test_rank * (MPI_Offset)sizeof record, record, N, MPI_INT));
    MPI_OK(MPI_File_write_at_all_end(*file, record, MPI_STATUS_IGNORE));
}

static void end_scratch(int step)
{
    MPI_File *file = &scratch[step % 2];
    MPI_OK(MPI_File_read_at_all(*file, test_rank * (MPI_Offset)sizeof record, back, N, MPI_INT, MPI_STATUS_IGNORE));
    check(step, test_rank, 4);
    MPI_OK(MPI_File_close(file));
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    const int p = test_size, r = test_rank;
    MPI_File file, own, log;
    MPI_Request request;
    MPI_Status status;
    MPI_Offset size;
    int step;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "loop.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "own.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &own));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "log.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &log));
    MPI_OK(MPI_File_set_view(log, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (step = 0; cut_more(step, 12, MPI_COMM_WORLD); step++) {
        const MPI_Offset place = ((MPI_Offset)step * p + r) * (MPI_Offset)sizeof record;
        make(record, step, r, 0);
        MPI_OK(MPI_File_write_at_all(file, place, record, N, MPI_INT, &status));
        make(record, step, r, 1);
        MPI_OK(MPI_File_seek(own, 2 * place, MPI_SEEK_SET));
        MPI_OK(MPI_File_write(own, record, N, MPI_INT, &status));
        make(record, step, r, 2);
        MPI_OK(MPI_File_iwrite(own, record, N, MPI_INT, &request));
        make(back, step, r, 3);
        MPI_OK(MPI_Wait(&request, &status));
        MPI_OK(MPI_File_write_ordered(log, back, N, MPI_INT, &status));
        MPI_OK(MPI_File_iread_at_all(file, place, back, N, MPI_INT, &request));
        MPI_OK(MPI_Wait(&request, &status));
        check(step, r, 0);
        /* A scratch file that lives until the next step. */
        if (step > 0)
            end_scratch(step - 1);
        begin_scratch(step);
    }
    end_scratch(step - 1);
    CHECK(access((step - 1) % 2 ? "scratch.1" : "scratch.0", F_OK) != 0, "scratch is left");
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_File_sync(own));
    MPI_OK(MPI_File_sync(log));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, (MPI_Offset)step * p * (MPI_Offset)sizeof record);
    MPI_OK(MPI_File_get_size(own, &size));
    CHECK_EQ(size, (MPI_Offset)step * 2 * p * (MPI_Offset)sizeof record);
    MPI_OK(MPI_File_get_size(log, &size));
    CHECK_EQ(size, (MPI_Offset)step * p * (MPI_Offset)sizeof record);
    const int other = (r + 1) % p;
    for (int s = 0; s < step; s++) {
        const MPI_Offset place = ((MPI_Offset)s * p + other) * (MPI_Offset)sizeof record;
        MPI_OK(MPI_File_read_at(file, place, back, N, MPI_INT, &status));
        check(s, other, 0);
        MPI_OK(MPI_File_read_at(own, 2 * place, back, N, MPI_INT, &status));
        check(s, other, 1);
        MPI_OK(MPI_File_read_at(own, 2 * place + (MPI_Offset)sizeof record, back, N, MPI_INT, &status));
        check(s, other, 2);
        MPI_OK(MPI_File_read_at(log, ((MPI_Offset)s * p + other) * N, back, N, MPI_INT, &status));
        check(s, other, 3);
    }
    MPI_OK(MPI_File_close(&log));
    MPI_OK(MPI_File_close(&own));
    MPI_OK(MPI_File_close(&file));
    return test_finish_loop("loop");
}

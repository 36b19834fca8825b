//#Ranks: 3
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle
//#Matrix: full
//#Shows: files that all ranks, or half of them, open, write to behind its end and close in each step, until the job is killed: in the end neither a record too few nor one too many
#include "../stasis_test.h"

enum { N = 100 };

static int record[N];

/* Each member writes its record behind what is there. */
static void append(MPI_Comm comm, const char *name, int step)
{
    const int amode = MPI_MODE_CREATE | MPI_MODE_WRONLY;
    int rank, size;
    MPI_Offset end;
    MPI_File file;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < N; i++)
        record[i] = 1000003 * step + 1009 * rank + i;
    MPI_OK(MPI_File_open(comm, name, amode | (step % 2 ? MPI_MODE_APPEND : 0), MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_get_size(file, &end));
    CHECK_EQ(end, (MPI_Offset)step * size * (MPI_Offset)sizeof record);
    MPI_OK(MPI_Barrier(comm));
    MPI_OK(MPI_File_write_at_all(file, end + rank * (MPI_Offset)sizeof record, record, N, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
}

static void check(MPI_Comm comm, const char *name, int steps)
{
    int size;
    MPI_Offset end;
    MPI_File file;
    MPI_Comm_size(comm, &size);
    MPI_OK(MPI_File_open(comm, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_get_size(file, &end));
    CHECK_EQ(end, (MPI_Offset)steps * size * (MPI_Offset)sizeof record);
    for (int step = 0; step < steps; step++)
        for (int rank = 0; rank < size; rank++) {
            MPI_OK(MPI_File_read(file, record, N, MPI_INT, MPI_STATUS_IGNORE));
            for (int i = 0; i < N; i++)
                CHECK_EQ(record[i], 1000003 * step + 1009 * rank + i);
        }
    MPI_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Comm half;
    char name[32];
    int step;
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, test_rank % 2, -test_rank, &half));
    snprintf(name, sizeof name, "half.%d", test_rank % 2);
    for (step = 0; cut_more(step, 12, MPI_COMM_WORLD); step++) {
        append(MPI_COMM_WORLD, "all", step);
        append(half, name, step);
    }
    check(MPI_COMM_WORLD, "all", step);
    check(half, name, step);
    MPI_OK(MPI_Comm_free(&half));
    return test_finish_loop("closed");
}

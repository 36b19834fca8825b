//#Ranks: 2
//#Cut: after 5 to 20 lines of steps with step
//#Kill: later
//#Modes: plain, continue, restart, migrate
//#Matrix: full
//#Compare: lines of stdout with OK, bytes of field.dat, bytes of sized.dat
//#Timeout: 180
//#Shows: files that are overwritten in place at random, by data sieving, by collective buffering, by the shared pointer, without waiting and in two halves, cut off, extended, made and deleted: what a step writes follows from what is in the files, so that one that is done twice, or is half undone, gives another end
#include "../stasis_test.h"

enum {
    STEPS = 40,
    CELLS = 12000,       /* 48 kB, so that both ranks write into each block of 4 KiB */
    PIECE = 50,          /* cells that are written at a time */
    SPREAD = CELLS / 8,  /* cells of a rank in a view */
    SIZED = 3000,
};

static unsigned chain = 1;
static unsigned cells[CELLS];

/* What follows from a value that was read, and from all that were read before. */
static unsigned next(unsigned value, int step)
{
    chain = chain * 1664525u + value + 1013904223u;
    return value * 31 + chain + (unsigned)step;
}

static void change(unsigned *values, int n, int step)
{
    for (int i = 0; i < n; i++)
        values[i] = next(values[i], step);
}

/* Where a rank writes: in its own half of the cells, that of the other rank in the next step. */
static MPI_Offset place(int step, int which)
{
    const int half = (test_rank + step) % 2;
    const unsigned at = (unsigned)(step * 7919 + which * 104729) % (CELLS / 2 - PIECE);
    return ((MPI_Offset)half * (CELLS / 2) + at) * (MPI_Offset)sizeof(unsigned);
}

/* The other rank is to find there what this one has written. */
static void settle(MPI_File file)
{
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(file));
}

static MPI_File open_with(MPI_Comm comm, const char *name, const char *sieving, const char *buffering)
{
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_Info info;
    MPI_File file;
    MPI_OK(MPI_Info_create(&info));
    MPI_OK(MPI_Info_set(info, "romio_ds_write", sieving));
    MPI_OK(MPI_Info_set(info, "romio_cb_write", buffering));
    MPI_OK(MPI_File_open(comm, name, amode, info, &file));
    MPI_OK(MPI_Info_free(&info));
    return file;
}

/* Each rank sees every other of 3 cells. */
static void view(MPI_File file, int from)
{
    MPI_Datatype three, mine;
    MPI_OK(MPI_Type_contiguous(3, MPI_UNSIGNED, &three));
    MPI_OK(MPI_Type_create_resized(three, 0, 6 * (MPI_Aint)sizeof(unsigned), &mine));
    MPI_OK(MPI_Type_commit(&mine));
    MPI_OK(MPI_File_set_view(file, (from + 3 * test_rank) * (MPI_Offset)sizeof(unsigned), MPI_UNSIGNED, mine, "native", MPI_INFO_NULL));
    MPI_OK(MPI_Type_free(&mine));
    MPI_OK(MPI_Type_free(&three));
}

static void by_offset(MPI_File file, int step)
{
    MPI_Request request;
    for (int which = 0; which < 3; which++) {
        const MPI_Offset at = place(step, which);
        MPI_OK(MPI_File_read_at(file, at, cells, PIECE, MPI_UNSIGNED, MPI_STATUS_IGNORE));
        change(cells, PIECE, step);
        if (which == 0) {
            MPI_OK(MPI_File_write_at(file, at, cells, PIECE, MPI_UNSIGNED, MPI_STATUS_IGNORE));
        } else if (which == 1) {
            MPI_OK(MPI_File_iwrite_at(file, at, cells, PIECE, MPI_UNSIGNED, &request));
            MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            MPI_OK(MPI_File_write_at_all_begin(file, at, cells, PIECE, MPI_UNSIGNED));
            MPI_OK(MPI_File_write_at_all_end(file, cells, MPI_STATUS_IGNORE));
        }
    }
}

static void by_view(MPI_File file, int step, int together)
{
    const MPI_Offset at = step * 37 % 100;
    MPI_OK(MPI_File_read_at_all(file, at, cells, SPREAD, MPI_UNSIGNED, MPI_STATUS_IGNORE));
    change(cells, SPREAD, step);
    MPI_OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    if (together) {
        MPI_OK(MPI_File_write_all(file, cells, SPREAD, MPI_UNSIGNED, MPI_STATUS_IGNORE));
    } else {
        /* Whole stretches are read and written back: one rank after the other. */
        for (int turn = 0; turn < test_size; turn++) {
            if (turn == test_rank)
                MPI_OK(MPI_File_write(file, cells, SPREAD, MPI_UNSIGNED, MPI_STATUS_IGNORE));
            settle(file);
        }
    }
}

static void by_shared_pointer(MPI_File file, int step)
{
    const MPI_Offset at = step * 613 % (CELLS - PIECE) * (MPI_Offset)sizeof(unsigned);
    MPI_OK(MPI_File_seek_shared(file, at, MPI_SEEK_SET));
    if (test_rank == step % 2) {
        MPI_OK(MPI_File_read_at(file, at, cells, PIECE, MPI_UNSIGNED, MPI_STATUS_IGNORE));
        change(cells, PIECE, step);
        MPI_OK(MPI_File_write_shared(file, cells, PIECE, MPI_UNSIGNED, MPI_STATUS_IGNORE));
    }
}

/* Cut off somewhere, and longer than before for a while: by one rank alone, for Open MPI's MPI_File_preallocate
 * confuses several ranks. */
static void by_size(MPI_File file, MPI_File own, int step)
{
    const MPI_Offset one = (MPI_Offset)sizeof(unsigned);
    MPI_Offset size;
    MPI_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, SIZED * one);
    MPI_OK(MPI_File_read_at(file, 0, cells, SIZED, MPI_UNSIGNED, MPI_STATUS_IGNORE));
    change(cells, SIZED, step);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    const int kept = 100 + step * 17;
    MPI_OK(MPI_File_set_size(file, kept * one));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == step % 2) {
        MPI_OK(MPI_File_preallocate(own, (SIZED + step) * one));
        MPI_OK(MPI_File_write_at(own, kept * one, cells + kept, SIZED - kept, MPI_UNSIGNED, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_sync(own));
    }
    settle(file);
    MPI_OK(MPI_File_set_size(file, SIZED * one));
}

/* A file that is made in each step, and deleted in the next: made anew, it must not be there. */
static void by_name(int step)
{
    const int amode = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR;
    MPI_File file;
    if (step > 0) {
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, "turn.dat", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
        MPI_OK(MPI_File_read_at_all(file, 0, cells, PIECE, MPI_UNSIGNED, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_close(&file));
        change(cells, PIECE, step);
        if (test_rank == step % 2)
            MPI_OK(MPI_File_delete("turn.dat", MPI_INFO_NULL));
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "turn.dat", amode, MPI_INFO_NULL, &file));
    if (test_rank == 0)
        MPI_OK(MPI_File_write_at(file, 0, cells, PIECE, MPI_UNSIGNED, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
}

/* One that goes when it is closed, some steps later. */
static MPI_File scratch;

static void by_closing(int step)
{
    const int amode = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    const MPI_Offset at = test_rank * PIECE * (MPI_Offset)sizeof(unsigned);
    if (step % 5 == 0)
        MPI_OK(MPI_File_open(MPI_COMM_WORLD, "scratch.dat", amode, MPI_INFO_NULL, &scratch));
    else
        MPI_OK(MPI_File_read_at(scratch, at, cells, PIECE, MPI_UNSIGNED, MPI_STATUS_IGNORE));
    change(cells, PIECE, step);
    MPI_OK(MPI_File_write_at(scratch, at, cells, PIECE, MPI_UNSIGNED, MPI_STATUS_IGNORE));
    if (step % 5 == 4)
        MPI_OK(MPI_File_close(&scratch));
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    FILE *steps;
    unsigned sum = 0;
    MPI_File field = open_with(MPI_COMM_WORLD, "field.dat", "automatic", "automatic");
    MPI_File sieved = open_with(MPI_COMM_WORLD, "field.dat", "enable", "disable");
    MPI_File buffered = open_with(MPI_COMM_WORLD, "field.dat", "disable", "enable");
    MPI_File sized = open_with(MPI_COMM_WORLD, "sized.dat", "automatic", "automatic");
    MPI_File own = open_with(MPI_COMM_SELF, "sized.dat", "automatic", "automatic");
    for (int i = 0; i < CELLS; i++)
        cells[i] = (unsigned)i;
    if (test_rank == 0) {
        MPI_OK(MPI_File_write_at(field, 0, cells, CELLS, MPI_UNSIGNED, MPI_STATUS_IGNORE));
        MPI_OK(MPI_File_write_at(sized, 0, cells, SIZED, MPI_UNSIGNED, MPI_STATUS_IGNORE));
    }
    settle(field);
    settle(sized);
    view(sieved, 1000);
    view(buffered, 3000);
    cut_announce();
    for (int step = 0; step < STEPS; step++) {
        by_offset(field, step);
        settle(field);
        by_view(sieved, step, 0);
        settle(sieved);
        by_view(buffered, step, 1);
        settle(buffered);
        by_shared_pointer(field, step);
        settle(field);
        by_size(sized, own, step);
        settle(sized);
        by_name(step);
        by_closing(step);
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (test_rank == 0) {
            steps = fopen("steps", "a");
            CHECK(steps != NULL);
            fprintf(steps, "step %d\n", step);
            fclose(steps);
        }
    }
    MPI_OK(MPI_File_read_at(field, 0, cells, CELLS, MPI_UNSIGNED, MPI_STATUS_IGNORE));
    for (int i = 0; i < CELLS; i++)
        sum = sum * 31 + cells[i];
    MPI_OK(MPI_File_close(&own));
    MPI_OK(MPI_File_close(&sized));
    MPI_OK(MPI_File_close(&buffered));
    MPI_OK(MPI_File_close(&sieved));
    MPI_OK(MPI_File_close(&field));
    CHECK(access("scratch.dat", F_OK) != 0, "scratch.dat is left");
    test_add(&sum, sizeof sum);
    test_add(&chain, sizeof chain);
    return test_finish("overwritten");
}

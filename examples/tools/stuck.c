/* Rank 1 is stuck in one call until the harness removes an obstacle: `open` (MPI_File_open of a pipe that nothing writes)
 * or `locked` (MPI_File_write_at to a file of which another process holds a lock). `free` is stuck nowhere. Meanwhile
 * rank 0 appends a byte to the file `steps` again and again. Both end when $STASIS_TEST_GO is there. */
#include "../stasis_test.h"

static void stuck_in_open(void)
{
    MPI_File file;
    cut_announce();
    MPI_OK(MPI_File_open(MPI_COMM_SELF, "pipe", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_close(&file));
}

static void stuck_in_write(void)
{
    MPI_File file;
    MPI_Datatype spread;
    int words[2] = {17, 18}, read[2] = {0, 0};
    MPI_OK(MPI_File_open(MPI_COMM_SELF, "locked", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    /* Open MPI locks what it writes if it is told to, and MPICH if it has to read, change and write back. */
    MPI_OK(MPI_File_set_atomicity(file, 1));
    MPI_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &spread));
    MPI_OK(MPI_Type_commit(&spread));
    MPI_OK(MPI_File_set_view(file, 0, MPI_INT, spread, "native", MPI_INFO_NULL));
    cut_announce();
    MPI_OK(MPI_File_write_at(file, 0, words, 2, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_read_at(file, 0, read, 2, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(read[0], words[0]);
    CHECK_EQ(read[1], words[1]);
    MPI_OK(MPI_Type_free(&spread));
    MPI_OK(MPI_File_close(&file));
}

/* The harness finds the name of this function in the stack. */
__attribute__((noinline)) static int the_stuck_function(const char *what)
{
    if (!strcmp(what, "open"))
        stuck_in_open();
    else if (!strcmp(what, "locked"))
        stuck_in_write();
    else
        cut_announce();
    return test_rank;
}

int main(int argc, char **argv)
{
    struct timespec pause = {0, 1000000};
    int sum = 0;
    test_start(&argc, &argv);
    if (test_rank == 1) {
        test_add("x", (size_t)the_stuck_function(argv[1]));
        FILE *past = fopen("past", "w");
        CHECK(past && fclose(past) == 0);
        cut_hold();
    } else {
        cut_announce();
        while (!cut_open()) {
            FILE *steps = fopen("steps", "a");
            CHECK(steps && fputc('s', steps) == 's' && fclose(steps) == 0);
            nanosleep(&pause, NULL);
        }
    }
    MPI_OK(MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, test_size * (test_size - 1) / 2);
    return test_finish("stuck");
}

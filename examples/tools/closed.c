/* Each rank has written some files of its own, and all in turn one, and has closed them. What becomes of these
 * between the checkpoint and a restart is the test's doing. */
#include "../stasis_test.h"

static void append(const char *what, int rank, const char *line)
{
    char name[64];
    snprintf(name, sizeof name, rank < 0 ? "%s" : "%s.%d", what, rank);
    FILE *file = fopen(name, "a");
    CHECK(file && fputs(line, file) >= 0 && fclose(file) == 0, "%s", name);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"own", "anew", "replaced", "shorter", "gone"};
    test_start(&argc, &argv);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        append(kinds[i], test_rank, "first\n");
    for (int turn = 0; turn < test_size; turn++) {
        if (turn == test_rank)
            append("common", -1, "first\n");
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    /* One stays open. */
    FILE *open = fopen(test_rank ? "open.1" : "open.0", "w");
    CHECK(open && fputs("first\n", open) >= 0 && fflush(open) == 0, "open");
    cut();
    append("own", test_rank, "last\n");
    CHECK(fputs("last\n", open) >= 0 && fclose(open) == 0, "open");
    return test_finish_loop("closed");
}

/* A job that waits at its cut and then ends in the way of its argument: `runs`, `exits` (rank 1, with code 3),
 * `leaves` (rank 1, with code 0) or `aborts` (rank 1, with code 5). With `exits-if` rank 1 exits with code 3 if
 * the file of the next argument exists. With `waits` it makes calls of MPI while it waits, with `large` it has
 * 256 MiB, and with `filled` 128 MiB without a page of zeros. With `reads` it has the file of the next argument open,
 * and with `writes` rank 1 writes to that while it waits. With `appends` the last rank appends numbers to it meanwhile,
 * and nobody else may have. */
#include "../stasis_test.h"

#define LARGE ((size_t)256 << 20)
#define FILLED ((size_t)128 << 20)

/* All ranks wait until rank 0 may go on. */
static void wait_together(void)
{
    int open = 0;
    struct timespec pause = {0, 1000000};
    cut_announce();
    while (!open) {
        open = cut_open();
        MPI_OK(MPI_Bcast(&open, 1, MPI_INT, 0, MPI_COMM_WORLD));
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        nanosleep(&pause, NULL);
    }
}

static void write_while_waiting(const char *path)
{
    struct timespec pause = {0, 1000000};
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0, "%s", path);
    cut_announce();
    while (!cut_open()) {
        CHECK_EQ(pwrite(file, "x", 1, 0), 1);
        nanosleep(&pause, NULL);
    }
    close(file);
}

static void append_while_waiting(const char *path)
{
    struct timespec pause = {0, 1000000};
    int number = 0, got, file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    CHECK(file >= 0, "%s", path);
    cut_announce();
    while (!cut_open()) {
        CHECK(dprintf(file, "%d\n", number++) > 0, "%s", path);
        nanosleep(&pause, NULL);
    }
    FILE *all = fdopen(file, "r");
    rewind(all);
    for (int i = 0; i < number; i++)
        CHECK(fscanf(all, "%d", &got) == 1 && got == i, "%s: %d in the place of %d", path, got, i);
    CHECK_EQ(fscanf(all, "%d", &got), EOF);
    fclose(all);
}

static uint64_t filled_word(size_t i)
{
    return (i + 1) * 0x9e3779b97f4a7c15u + (uint64_t)test_rank;
}

int main(int argc, char **argv)
{
    int sum = 0;
    char *memory = NULL;
    uint64_t *words = NULL;
    FILE *input = NULL;
    test_start(&argc, &argv);
    if (test_is(argc, argv, "large")) {
        memory = malloc(LARGE);
        if (memory == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        /* The kernel gives memory for pages that are written. */
        for (size_t i = 0; i < LARGE; i += 4096)
            memory[i] = (char)i;
    }
    if (test_is(argc, argv, "filled")) {
        words = malloc(FILLED);
        if (words == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (size_t i = 0; i < FILLED / sizeof *words; i++)
            words[i] = filled_word(i);
    }
    if (test_is(argc, argv, "reads") && (input = fopen(argv[2], "r")) == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < 100; i++) {
        int mine = i * (test_rank + 1), all;
        MPI_OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        sum += all;
    }
    test_add(&sum, sizeof sum);
    if (test_is(argc, argv, "waits"))
        wait_together();
    else if (test_rank == 1 && test_is(argc, argv, "writes"))
        write_while_waiting(argv[2]);
    else if (test_rank == test_size - 1 && test_is(argc, argv, "appends"))
        append_while_waiting(argv[2]);
    else
        cut();
    if (test_rank == 1 && test_is(argc, argv, "exits"))
        exit(3);
    if (test_rank == 1 && test_is(argc, argv, "exits-if") && access(argv[2], F_OK) == 0)
        exit(3);
    if (test_rank == 1 && test_is(argc, argv, "leaves"))
        exit(0);
    if (test_rank == 1 && test_is(argc, argv, "aborts"))
        MPI_Abort(MPI_COMM_WORLD, 5);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (size_t i = 0; words != NULL && i < FILLED / sizeof *words; i++)
        CHECK(words[i] == filled_word(i), "word %zu", i);
    if (input != NULL)
        fclose(input);
    free(words);
    free(memory);
    return test_finish("ends");
}

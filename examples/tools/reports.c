/* A test program in the form of MPICH's suite: it ends with 0 and says " No Errors", or not. With
 * "fails" it finds an error; with "alone" it does so under Stasis. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 30

static int errors;

static void go_round(void)
{
    int rank, size, got = -1, sum = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, i, &got, 1, MPI_INT,
                     (rank + size - 1) % size, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        errors += got != (rank + size - 1) % size;
        MPI_Allreduce(&got, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        errors += sum != size * (size - 1) / 2;
    }
}

static int is(int argc, char **argv, const char *word)
{
    return argc > 1 && strcmp(argv[1], word) == 0;
}

/* Whether Stasis's library is in this process. */
static int is_under_stasis(void)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, "/front-") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

int main(int argc, char **argv)
{
    int rank, all;
    MPI_Init(&argc, &argv);
    go_round();
    if (is(argc, argv, "alone") && is_under_stasis()) {
        fprintf(stderr, "this is not the library that I was built for\n");
        errors++;
    }
    errors += is(argc, argv, "fails");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&errors, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all != 0)
        printf(" Found %d errors\n", all);
    else if (rank == 0)
        puts(" No Errors");
    MPI_Finalize();
    return all != 0;
}

/* The program of `cargo xtask bench recovery` that keeps a checkpoint of its own: as beats.c, each rank has some MiB of
 * memory, makes a collective operation each millisecond, and prints the number of the operation and the time. Each
 * writes its memory to a file before the first operation. After a death all ranks read their files again.
 *
 * reloads MIB DIR stages|reinit|cpr: the ranks go on by MPI Stages, by MPI_Reinit, or the program is started anew. It
 * ends when it is killed. */
#include <mpi.h>
#include "stasis_mpix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank;
static size_t words;
static unsigned long *memory;
static char path[4096];

/* Reads the checkpoint, or makes the first one. */
static void load(void)
{
    FILE *file = fopen(path, "r");
    if (file) {
        if (fread(memory, sizeof *memory, words, file) != words)
            MPI_Abort(MPI_COMM_WORLD, 3);
        fclose(file);
        return;
    }
    char whole[4200];
    snprintf(whole, sizeof whole, "%s.new", path);
    srand48(rank);
    for (size_t i = 0; i < words; i++)
        memory[i] = (unsigned long)mrand48() << 32 ^ (unsigned long)mrand48();
    file = fopen(whole, "w");
    if (!file || fwrite(memory, sizeof *memory, words, file) != words || fclose(file) != 0 || rename(whole, path) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Returns when a call fails. */
static int beats(void)
{
    struct timespec now, pause = {0, 1000000};
    load();
    for (unsigned long beat = 1;; beat++) {
        memory[beat % words] += beat;
        int code = MPI_Barrier(MPI_COMM_WORLD);
        if (code != MPI_SUCCESS)
            return code;
        clock_gettime(CLOCK_REALTIME, &now);
        printf("%d %lu %.6f\n", rank, beat, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
        nanosleep(&pause, NULL);
    }
}

static void restart_point(int argc, char **argv, MPI_Start_state state)
{
    (void)argc, (void)argv, (void)state;
    beats();
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t bytes = strtoul(argv[1], NULL, 10) << 20;
    words = bytes / sizeof *memory;
    memory = malloc(bytes);
    if (!memory)
        MPI_Abort(MPI_COMM_WORLD, 1);
    snprintf(path, sizeof path, "%s/app.%d", argv[2], rank);
    if (strcmp(argv[3], "reinit") == 0)
        return MPI_Reinit(argc, argv, restart_point);
    if (strcmp(argv[3], "stages") == 0) {
        int epoch = 0;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPIX_Get_fault_epoch(&epoch);
        if (epoch == 0)
            MPIX_Checkpoint_write();
        while (beats() == MPIX_TRY_RELOAD)
            MPIX_Checkpoint_read();
        return 4;
    }
    return beats();
}

/* The program of `cargo xtask bench recovery` that keeps a checkpoint of its own: as beats.c, each rank has some MiB of
 * memory, communicates each millisecond, and prints the number of the step and the time. Each writes its memory to a
 * file before the first step. After a death all ranks read their files again.
 *
 * reloads MIB DIR stages|reinit|cpr STEP INITIALISATION: the ranks go on by MPI Stages, by MPI_Reinit, or the program is
 * started anew. A step is a `barrier`, a word that goes around a `ring`, or an exchange of some bytes with the neighbours
 * in three dimensions and an MPI_Allreduce (a number, as of LULESH and CoMD). The initialisation computes for so many
 * milliseconds. A rank that takes the place of a dead one by MPI Stages needs none: its state is in the checkpoint. The
 * program ends when it is killed. */
#include <mpi.h>
#include "stasis_mpix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, ranks;
static const char *step;
static double initialisation;
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

static void initialise(void)
{
    volatile double sum = 0;
    for (double end = MPI_Wtime() + initialisation; MPI_Wtime() < end;)
        sum += 1;
}

/* A word from rank 0 through all others and back. */
static int ring(unsigned long word)
{
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, code;
    if (rank == 0 && (code = MPI_Send(&word, 1, MPI_UNSIGNED_LONG, next, 0, MPI_COMM_WORLD)) != MPI_SUCCESS)
        return code;
    code = MPI_Recv(&word, 1, MPI_UNSIGNED_LONG, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || rank == 0)
        return code;
    return MPI_Send(&word, 1, MPI_UNSIGNED_LONG, next, 0, MPI_COMM_WORLD);
}

/* The faces of a cuboid to and from both neighbours of each dimension, and the least step of time of all. */
static int faces(int bytes)
{
    static char *out, *in;
    int extent[3] = {0, 0, 0}, stride = 1, code;
    double least = rank;
    if (!out && (!(out = calloc(1, bytes)) || !(in = calloc(1, bytes))))
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Dims_create(ranks, 3, extent);
    for (int d = 0; d < 3; stride *= extent[d++])
        for (int up = 0; up < 2; up++) {
            int place = rank / stride % extent[d], last = extent[d] - 1;
            int above = place < last ? rank + stride : MPI_PROC_NULL, below = place > 0 ? rank - stride : MPI_PROC_NULL;
            code = MPI_Sendrecv(out, bytes, MPI_BYTE, up ? above : below, 1, in, bytes, MPI_BYTE, up ? below : above, 1,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS)
                return code;
        }
    return MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
}

static int communicate(unsigned long beat)
{
    if (strcmp(step, "barrier") == 0)
        return MPI_Barrier(MPI_COMM_WORLD);
    return strcmp(step, "ring") == 0 ? ring(beat) : faces(atoi(step));
}

/* Returns when a call fails. */
static int beats(void)
{
    struct timespec now, pause = {0, 1000000};
    load();
    for (unsigned long beat = 1;; beat++) {
        memory[beat % words] += beat;
        int code = communicate(beat);
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
    initialise();
    beats();
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    step = argv[4];
    initialisation = atof(argv[5]) / 1e3;
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
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
        if (epoch == 0) {
            initialise();
            MPIX_Checkpoint_write();
        }
        while (beats() == MPIX_TRY_RELOAD)
            MPIX_Checkpoint_read();
        return 4;
    }
    initialise();
    return beats();
}

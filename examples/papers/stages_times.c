/* How long the functions of MPI Stages take, in a program of cycles with an application's checkpoint of some MiB: as
 * LULESH in the thesis, each cycle ends with a checkpoint of the program and one of MPI. Rank 0 dies in the middle of the
 * second cycle.
 *
 * stages_times DIR MIB: the program's checkpoints are in DIR. A rank prints lines `name seconds`. */
#include <mpi.h>
#include "../../upper-half/include/stasis_mpix.h"
#include "../tools/die_once.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CYCLES = 4, DIES_IN = 1 };
static int rank;
static const char *dir;
static char *state;
static size_t bytes;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void tell(const char *name, double begun) { printf("%s %.6f\n", name, now() - begun); }

static FILE *checkpoint_of(int epoch, const char *mode)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/app.%d.%d", dir, epoch % 2, rank);
    FILE *file = fopen(path, mode);
    if (!file)
        MPI_Abort(MPI_COMM_WORLD, 3);
    return file;
}

static int main_loop(int epoch)
{
    if (epoch > 0) {
        double begun = now();
        FILE *file = checkpoint_of(epoch, "r");
        if (fread(state, 1, bytes, file) != bytes)
            MPI_Abort(MPI_COMM_WORLD, 3);
        fclose(file);
        tell("app-read", begun);
    }
    for (int cycle = epoch; cycle < CYCLES; cycle++) {
        int one = 1, sum, code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (code != MPI_SUCCESS)
            return code;
        if (rank == 0 && cycle == DIES_IN)
            die_once(dir);
        memset(state, cycle, bytes / 4);
        double begun = now();
        FILE *file = checkpoint_of(cycle + 1, "w");
        if (fwrite(state, 1, bytes, file) != bytes || fflush(file) != 0 || fsync(fileno(file)) != 0)
            MPI_Abort(MPI_COMM_WORLD, 3);
        fclose(file);
        tell("app-write", begun);
        begun = now();
        code = MPIX_Checkpoint_write();
        if (code != MPI_SUCCESS)
            return code;
        tell("MPIX_Checkpoint_write", begun);
    }
    return MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int code, epoch = 0;
    if (argc < 3)
        return 2;
    dir = argv[1];
    bytes = strtoul(argv[2], NULL, 10) << 20;
    state = calloc(bytes, 1);
    double begun = now();
    MPI_Init(&argc, &argv);
    double started = now();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPIX_Get_fault_epoch(&epoch);
    printf("%s %.6f\n", epoch == 0 ? "MPI_Init-first" : "MPI_Init-relaunched", started - begun);
    while ((code = main_loop(epoch)) == MPIX_TRY_RELOAD) {
        begun = now();
        MPIX_Checkpoint_read();
        tell("MPIX_Checkpoint_read", begun);
        MPIX_Get_fault_epoch(&epoch);
    }
    if (code != MPI_SUCCESS || !state)
        MPI_Abort(MPI_COMM_WORLD, 4);
    MPI_Finalize();
    return 0;
}

/* The program of `cargo xtask bench late`: all ranks but the last are in an operation of MPI_COMM_WORLD, until the last
 * one comes to it when a file appears. Rank 0 is the root. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST 64

static void sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static int rank, size;
/* The last rank alone, and the others. */
static MPI_Comm beside;

static void operate(const char *name, const char *path)
{
    int in[MOST] = {1}, out[MOST];
    MPI_Comm world = MPI_COMM_WORLD, made = MPI_COMM_NULL;

    if (!strcmp(name, "Barrier")) {
        MPI_Barrier(world);
    } else if (!strcmp(name, "Allreduce")) {
        MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, world);
    } else if (!strcmp(name, "Allreduce in place")) {
        MPI_Allreduce(MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM, world);
    } else if (!strcmp(name, "Allreduce with an operation of the program's")) {
        MPI_Op own;
        MPI_Op_create(sum, 1, &own);
        MPI_Allreduce(in, out, 1, MPI_INT, own, world);
        MPI_Op_free(&own);
    } else if (!strcmp(name, "Bcast")) {
        MPI_Bcast(in, 1, MPI_INT, 0, world);
    } else if (!strcmp(name, "Reduce")) {
        MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, 0, world);
    } else if (!strcmp(name, "Gather")) {
        MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, 0, world);
    } else if (!strcmp(name, "Scatter")) {
        MPI_Scatter(in, 1, MPI_INT, out, 1, MPI_INT, 0, world);
    } else if (!strcmp(name, "Alltoall")) {
        MPI_Alltoall(in, 1, MPI_INT, out, 1, MPI_INT, world);
    } else if (!strcmp(name, "Allgather")) {
        MPI_Allgather(in, 1, MPI_INT, out, 1, MPI_INT, world);
    } else if (!strcmp(name, "Scan")) {
        MPI_Scan(in, out, 1, MPI_INT, MPI_SUM, world);
    } else if (!strcmp(name, "Comm_dup")) {
        MPI_Comm_dup(world, &made);
    } else if (!strcmp(name, "Comm_split")) {
        MPI_Comm_split(world, 0, rank, &made);
    } else if (!strcmp(name, "Win_create")) {
        MPI_Win window;
        MPI_Win_create(in, sizeof in, sizeof *in, MPI_INFO_NULL, world, &window);
        MPI_Win_free(&window);
    } else if (!strcmp(name, "File_open")) {
        MPI_File file;
        MPI_File_open(world, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        MPI_File_close(&file);
    } else if (!strcmp(name, "Ssend")) {
        if (rank == size - 1)
            for (int from = 0; from < size - 1; from++)
                MPI_Recv(in, 1, MPI_INT, from, 0, world, MPI_STATUS_IGNORE);
        else
            MPI_Ssend(in, 1, MPI_INT, size - 1, 0, world);
    } else if (!strcmp(name, "Barrier beside others")) {
        /* The first ranks have operations among themselves before they wait for the last one. */
        for (int i = 0; i < 10; i++)
            MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, beside);
        MPI_Barrier(world);
    } else {
        fprintf(stderr, "no operation %s\n", name);
        MPI_Abort(world, 1);
    }
    if (made != MPI_COMM_NULL)
        MPI_Comm_free(&made);
}

int main(int argc, char **argv)
{
    char path[4096];
    struct timespec pause = {0, 1000000};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3 || size > MOST)
        MPI_Abort(MPI_COMM_WORLD, 1);
    snprintf(path, sizeof path, "%s.file", argv[1]);
    MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1, rank, &beside);
    while (rank == size - 1 && access(argv[1], F_OK) != 0)
        nanosleep(&pause, NULL);
    operate(argv[2], path);
    MPI_Comm_free(&beside);
    MPI_Finalize();
    return 0;
}

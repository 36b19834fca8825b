/* Latencies of collective operations, as the OSU micro-benchmarks measure them: a warm-up, then the mean time of a call,
 * averaged over the ranks, in several windows, of which the median is printed. A non-blocking operation is measured
 * with its wait, and a second time with a computation of as long a time between the two; *overlap* is the percentage of
 * its time that this hides.
 *
 * collectives [CALLS]: prints lines `operation/bytes microseconds` and `operation/bytes/overlap percent`. CALLS is the
 * number of calls of a window for messages of 4 bytes. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { WINDOWS = 5, MOST = 1 << 20 };
static const int sizes[] = {4, 1 << 10, MOST};
static char *out, *in;
static int ranks;

static void bcast(int n) { MPI_Bcast(out, n, MPI_BYTE, 0, MPI_COMM_WORLD); }
static void alltoall(int n) { MPI_Alltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD); }
static void allgather(int n) { MPI_Allgather(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD); }
static void allreduce(int n) { MPI_Allreduce(out, in, n / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }

static void ibcast(int n, MPI_Request *r) { MPI_Ibcast(out, n, MPI_BYTE, 0, MPI_COMM_WORLD, r); }
static void ialltoall(int n, MPI_Request *r)
{
    MPI_Ialltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD, r);
}
static void iallgather(int n, MPI_Request *r)
{
    MPI_Iallgather(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD, r);
}
static void iallreduce(int n, MPI_Request *r)
{
    MPI_Iallreduce(out, in, n / 4, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, r);
}

static const struct {
    const char *name;
    void (*call)(int);
    void (*begin)(int, MPI_Request *);
} operations[] = {
    {"bcast", bcast, NULL},        {"alltoall", alltoall, NULL},   {"allgather", allgather, NULL},
    {"allreduce", allreduce, NULL}, {"ibcast", NULL, ibcast},       {"ialltoall", NULL, ialltoall},
    {"iallgather", NULL, iallgather}, {"iallreduce", NULL, iallreduce},
};

static void compute(double seconds)
{
    double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        ;
}

/* Seconds of a call, averaged over calls and ranks. */
static double window(int operation, int bytes, int calls, double between)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime(), took, sum;
    for (int i = 0; i < calls; i++) {
        MPI_Request request;
        if (operations[operation].call) {
            operations[operation].call(bytes);
            continue;
        }
        operations[operation].begin(bytes, &request);
        if (between > 0)
            compute(between);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    took = (MPI_Wtime() - begun) / calls;
    MPI_Allreduce(&took, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum / ranks;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(int operation, int bytes, int calls, double between)
{
    double times[WINDOWS];
    window(operation, bytes, calls / 4 + 1, between);
    for (int i = 0; i < WINDOWS; i++)
        times[i] = window(operation, bytes, calls, between);
    qsort(times, WINDOWS, sizeof *times, ascending);
    return times[WINDOWS / 2];
}

int main(int argc, char **argv)
{
    int rank, most = argc > 1 ? atoi(argv[1]) : 2000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    out = calloc((size_t)ranks, MOST);
    in = calloc((size_t)ranks, MOST);
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int o = 0; o < (int)(sizeof operations / sizeof *operations); o++)
        for (int s = 0; s < 3; s++) {
            int calls = sizes[s] == MOST ? most / 100 + 1 : most;
            double pure = median(o, sizes[s], calls, 0);
            if (rank == 0)
                printf("%s/%d %.3f\n", operations[o].name, sizes[s], pure * 1e6);
            if (!operations[o].begin)
                continue;
            double whole = median(o, sizes[s], calls, pure);
            double hidden = 100 * (1 - (whole - pure) / pure);
            if (rank == 0)
                printf("%s/%d/overlap %.1f\n", operations[o].name, sizes[s],
                       hidden < 0 ? 0 : hidden > 100 ? 100 : hidden);
        }
    MPI_Finalize();
    return 0;
}

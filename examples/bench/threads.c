/* How long exchanges of four threads in each of two ranks take, under MPI_THREAD_MULTIPLE: many short windows, of which
 * the fastest and the median are printed (nanoseconds an exchange), as in calls.c. */
#include <mpi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, WINDOWS = 20, TIMES = 10, BYTES = 8 };
static int rank;
static pthread_barrier_t all;
static double ns[WINDOWS];

static void exchange(int tag)
{
    char out[BYTES] = {1}, in[BYTES];
    MPI_Request requests[2];
    MPI_Irecv(in, BYTES, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, BYTES, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void *work(void *argument)
{
    int thread = (int)(size_t)argument;
    for (int window = -2; window < WINDOWS; window++) {
        pthread_barrier_wait(&all);
        if (thread == 0)
            MPI_Barrier(MPI_COMM_WORLD);
        pthread_barrier_wait(&all);
        double start = MPI_Wtime();
        for (int i = 0; i < TIMES; i++)
            exchange(thread);
        pthread_barrier_wait(&all);
        if (thread == 0 && window >= 0)
            ns[window] = (MPI_Wtime() - start) / (TIMES * THREADS) * 1e9;
    }
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (provided < MPI_THREAD_MULTIPLE) {
        fprintf(stderr, "the library has no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    pthread_barrier_init(&all, NULL, THREADS);
    for (size_t i = 1; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    work(NULL);
    for (size_t i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    qsort(ns, WINDOWS, sizeof *ns, ascending);
    if (rank == 0)
        printf("threads_4 %.2f %.2f\n", ns[0], ns[WINDOWS / 2]);
    MPI_Finalize();
    return 0;
}

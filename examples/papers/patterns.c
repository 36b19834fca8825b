/* Programs with the communication of those that the papers measure, and with as much memory in each rank: the numerics
 * are a smoothing of that memory. A table has one line for each.
 *
 * patterns NAME STEPS [CHECKPOINTS END]: prints `seconds`, the time of the steps, `collective` and `p2p`, calls a second
 * of rank 0, and `checksum`, which is the same in every run. With the last two, rank 0 asks for checkpoints in equal
 * distances, and the program does not end before the file END is there; that is no part of `seconds`. */
#include <mpi.h>
#include "../../upper-half/include/stasis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum exchange { NONE, AT_ONCE, IN_TURN, WAVES, COLLECTIVE };
enum { WAVE_PLANES = 32, MOST_PARTNERS = 26, MOST_HALO = 128 << 10 };

static const struct pattern {
    const char *name;
    /* Memory of each rank, and elements of it that a step smooths. */
    double mib;
    int smoothed;
    enum exchange exchange;
    /* Messages to others in a step, and the bytes of each. */
    int partners, bytes;
    /* Steps between two reductions; 0: one at the end. */
    int reduce_every;
} patterns[] = {
    /* NAS parallel benchmarks, class C with 32 or 36 ranks; EP of class D. */
    {"lu", 32, 1 << 17, WAVES, 2, 1600, 50},
    {"ep", 3.2, 1 << 17, NONE, 0, 0, 0},
    {"bt", 120, 1 << 18, AT_ONCE, 6, 96 << 10, 0},
    {"sp", 54, 1 << 17, AT_ONCE, 6, 48 << 10, 0},
    /* CoMD with 4,000 atoms: six faces in turn, reductions every ten steps. */
    {"comd", 1, 1 << 18, IN_TURN, 6, 16 << 10, 10},
    /* SW4: two layers to each of four sides, hardly any reduction. */
    {"sw4", 24, 1 << 19, IN_TURN, 4, 32 << 10, 60},
    /* LULESH: all 26 neighbours of a cube at once, and a reduction of the time step in every cycle. */
    {"lulesh", 15, 1 << 18, AT_ONCE, 26, 2 << 10, 1},
    /* Conjugate gradients for Poisson's equation, with non-blocking collective operations alone (Hoefler et al. 2007). */
    {"poisson", 16, 1 << 18, COLLECTIVE, 0, 8 << 10, 1},
};

static int rank, size;
static size_t elements;
static double *memory;
static double out[MOST_PARTNERS][MOST_HALO / sizeof(double)], in[MOST_PARTNERS][MOST_HALO / sizeof(double)];
static long collective_calls, p2p_calls;

static void smooth(size_t from, int count)
{
    for (int i = 0; i < count; i++) {
        size_t at = (from + (size_t)i) % (elements - 2) + 1;
        memory[at] = 0.25 * (memory[at - 1] + 2 * memory[at] + memory[at + 1]);
    }
}

/* The partner of a message, never the rank itself: with few ranks one is the partner of several. */
static int other(int message, int direction)
{
    int distance = 1 + message % (size - 1);
    return (rank + direction * distance + size) % size;
}

static void exchange(const struct pattern *p, int step)
{
    MPI_Request requests[2 * MOST_PARTNERS];
    int n = p->bytes / (int)sizeof(double), received = p->partners;
    for (int m = 0; m < p->partners; m++)
        memcpy(out[m], memory + (size_t)(m * n) % (elements - (size_t)n), (size_t)p->bytes);
    switch (p->exchange) {
    case AT_ONCE:
        for (int m = 0; m < p->partners; m++)
            MPI_Irecv(in[m], n, MPI_DOUBLE, other(m, -1), m, MPI_COMM_WORLD, &requests[m]);
        for (int m = 0; m < p->partners; m++)
            MPI_Isend(out[m], n, MPI_DOUBLE, other(m, 1), m, MPI_COMM_WORLD, &requests[p->partners + m]);
        MPI_Waitall(2 * p->partners, requests, MPI_STATUSES_IGNORE);
        p2p_calls += 2 * p->partners;
        break;
    case IN_TURN:
        for (int m = 0; m < p->partners; m++)
            MPI_Sendrecv(out[m], n, MPI_DOUBLE, other(m, 1), m, in[m], n, MPI_DOUBLE, other(m, -1), m,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        p2p_calls += p->partners;
        break;
    case WAVES:
        /* Planes from the first rank to the last, and back. */
        for (int back = 0; back < 2; back++) {
            int from = back ? rank + 1 : rank - 1, to = back ? rank - 1 : rank + 1;
            for (int plane = 0; plane < WAVE_PLANES; plane++) {
                if (from >= 0 && from < size)
                    MPI_Recv(in[back], n, MPI_DOUBLE, from, plane, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                smooth((size_t)step * WAVE_PLANES, p->smoothed / WAVE_PLANES / 2);
                if (to >= 0 && to < size)
                    MPI_Send(out[back], n, MPI_DOUBLE, to, plane, MPI_COMM_WORLD);
                p2p_calls++;
            }
        }
        break;
    case NONE:
    case COLLECTIVE:
        received = 0;
        break;
    }
    for (int m = 0; m < received; m++)
        for (int i = 0; i < n; i++)
            memory[(size_t)(m * n + i) % elements] = 0.5 * (memory[(size_t)(m * n + i) % elements] + in[m][i]);
}

/* A step whose communication is non-blocking, with the smoothing in its time. */
static void overlapped(const struct pattern *p, int step)
{
    static double shares[1 << 16], of_others[1 << 16];
    MPI_Request requests[2];
    int n = p->bytes / (int)sizeof(double) / size;
    double own = memory[1], sum;
    memcpy(shares, memory, (size_t)p->bytes);
    MPI_Iallreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ialltoall(shares, n, MPI_DOUBLE, of_others, n, MPI_DOUBLE, MPI_COMM_WORLD, &requests[1]);
    smooth((size_t)step * 4096, p->smoothed);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    collective_calls += 2;
    for (int i = 0; i < n * size; i++)
        memory[i] = 0.5 * (memory[i] + of_others[i]) + 1e-9 * sum;
}

int main(int argc, char **argv)
{
    const struct pattern *p = NULL;
    for (size_t i = 0; argc > 2 && i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(argv[1], patterns[i].name) == 0)
            p = &patterns[i];
    if (!p)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    elements = (size_t)(p->mib * (1 << 20)) / sizeof *memory;
    memory = malloc(elements * sizeof *memory);
    if (!memory || size < 2)
        MPI_Abort(MPI_COMM_WORLD, 1);
    srand48(rank);
    for (size_t i = 0; i < elements; i++)
        memory[i] = drand48();
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    int steps = atoi(argv[2]), checkpoints = argc > 4 ? atoi(argv[3]) : 0;
    for (int step = 0, asked = 0; step < steps; step++) {
        double own = memory[0], least;
        if (rank == 0 && asked < checkpoints && step >= (asked + 1) * (long)steps / (checkpoints + 1)) {
            stasis_checkpoint();
            asked++;
        }
        if (p->exchange == COLLECTIVE) {
            overlapped(p, step);
            continue;
        }
        if (p->exchange != WAVES)
            smooth((size_t)step * 4096, p->smoothed);
        exchange(p, step);
        if (p->reduce_every && step % p->reduce_every == 0) {
            MPI_Allreduce(&own, &least, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
            memory[0] = 0.5 * (memory[0] + least);
            collective_calls++;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double took = MPI_Wtime() - begun;
    double own = 0, sum = 0;
    for (size_t i = 0; i < elements; i++)
        own += memory[i];
    MPI_Reduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("seconds %.6f\ncollective %.1f\np2p %.1f\nchecksum %.17g\n", took, (double)collective_calls / took,
               (double)p2p_calls / took, sum);
    fflush(stdout);
    const struct timespec moment = {0, 10000000};
    while (rank == 0 && checkpoints > 0 && access(argv[4], F_OK) != 0)
        nanosleep(&moment, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

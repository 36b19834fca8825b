/* Sums of numbers of very different sizes, whose last bits depend on the order in which they are made. With `order` as the
 * argument they must be those of the order of ranks, ((0 + 1) + 2) + ..., in every function that reduces; without it,
 * whatever the library makes of them. One line, which tells the bits. */
#include "../stasis_test.h"

enum { STEPS = 40 };

static double part(int rank, int step)
{
    double large = rank % 2 ? 1e10 : 1e-7;
    return large * (1.0 + rank) / (3.0 + step);
}

static double prefix(int ranks, int step)
{
    double sum = part(0, step);
    for (int rank = 1; rank < ranks; rank++)
        sum += part(rank, step);
    return sum;
}

int main(int argc, char **argv)
{
    int ordered = argc > 1 && !strcmp(argv[1], "order");
    uint64_t digest = 0;
    test_start(&argc, &argv);
    for (int step = 0; step < STEPS; step++) {
        double own = part(test_rank, step), all, scan, requested, right = prefix(test_size, step);
        MPI_Request request;
        MPI_Iallreduce(&own, &requested, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Scan(&own, &scan, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (ordered) {
            CHECK(!memcmp(&all, &right, sizeof right), "step %d: %.17g instead of %.17g", step, all, right);
            CHECK(!memcmp(&requested, &right, sizeof right), "step %d: %.17g instead of %.17g", step, requested, right);
            right = prefix(test_rank + 1, step);
            CHECK(!memcmp(&scan, &right, sizeof right), "step %d: %.17g instead of %.17g", step, scan, right);
        }
        uint64_t bits;
        memcpy(&bits, &all, sizeof bits);
        digest = digest * 31 + bits;
    }
    if (test_rank == 0)
        printf("%016" PRIx64 "\n", digest);
    MPI_Finalize();
    return 0;
}

//#Ranks: 2
//#Cut: loop
//#Flags: -fopenmp
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: MPI and OpenMP: nested parallel regions, tasks, critical sections and locks, with MPI calls from inside of them
#include "../stasis_test.h"

#include <omp.h>

enum { OUTER = 2, INNER = 2, N = 4000 };

static long fibonacci(int n)
{
    if (n < 2)
        return n;
    long a, b;
#pragma omp task shared(a) if (n > 12)
    a = fibonacci(n - 1);
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(int argc, char **argv)
{
    omp_set_max_active_levels(2);
    test_start_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    MPI_Comm comms[OUTER];
    omp_lock_t lock;
    int other = 1 - test_rank;
    for (int i = 0; i < OUTER; i++)
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    omp_init_lock(&lock);
    for (int step = 0; cut_more(step, 40, MPI_COMM_WORLD); step++) {
        int in_critical = 0, locked = 0, regions = 0;
        long tasks = 0;
#pragma omp parallel num_threads(OUTER)
        {
            int me = omp_get_thread_num(), sum = 0;
            double local = 0, all = 0;
#pragma omp parallel num_threads(INNER) reduction(+ : local)
            {
                CHECK_EQ(omp_get_level(), 2);
                CHECK_EQ(omp_get_ancestor_thread_num(1), me);
#pragma omp for schedule(guided)
                for (int i = 0; i < N; i++)
                    local += i + me;
#pragma omp critical
                in_critical++;
                omp_set_lock(&lock);
                locked++;
                omp_unset_lock(&lock);
                /* From the inner region, on the outer one's communicator. */
                int tag = omp_get_thread_num(), out = step * 10 + tag, in = -1;
                MPI_OK(MPI_Sendrecv(&out, 1, MPI_INT, other, tag, &in, 1, MPI_INT, other, tag, comms[me], MPI_STATUS_IGNORE));
                CHECK_EQ(in, out);
            }
            MPI_OK(MPI_Allreduce(&local, &all, 1, MPI_DOUBLE, MPI_SUM, comms[me]));
            CHECK(all == 2 * ((double)N * (N - 1) / 2 + (double)N * me), "%.17g", all);
            MPI_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comms[me]));
            CHECK_EQ(sum, 2 * me);
#pragma omp barrier
#pragma omp single
            tasks = fibonacci(16);
#pragma omp atomic
            regions++;
        }
        CHECK_EQ(in_critical, OUTER * INNER);
        CHECK_EQ(locked, OUTER * INNER);
        CHECK_EQ(regions, OUTER);
        CHECK_EQ(tasks, 987);
    }
    omp_destroy_lock(&lock);
    for (int i = 0; i < OUTER; i++)
        MPI_OK(MPI_Comm_free(&comms[i]));
    return test_finish_loop("openmp_nested");
}

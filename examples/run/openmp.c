//#Ranks: 2
//#Cut: loop
//#Flags: -fopenmp
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: MPI and OpenMP: the threads of a parallel loop stopped and made again
#include "../stasis_test.h"

#include <omp.h>

int main(int argc, char **argv)
{
    omp_set_num_threads(3);
    test_start_threads(&argc, &argv, MPI_THREAD_FUNNELED);
    enum { N = 60000 };
    static double a[N];
    static __thread int mine;
    for (int step = 0; cut_more(step, 60, MPI_COMM_WORLD); step++) {
        int threads = 0, right = 0;
#pragma omp parallel reduction(+ : threads, right)
        {
            if (step == 0)
                mine = 100 + omp_get_thread_num();
            threads += 1;
            right += mine == 100 + omp_get_thread_num();
#pragma omp for schedule(dynamic, 500)
            for (int i = 0; i < N; i++)
                a[i] = (double)i * step + test_rank;
        }
        CHECK_EQ(threads, 3);
        CHECK_EQ(right, 3);
        double sum = 0, all = 0;
        for (int i = 0; i < N; i++)
            sum += a[i];
        MPI_OK(MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        CHECK(all == 2.0 * step * ((double)N * (N - 1) / 2) + N, "step %d: %.17g", step, all);
    }
    return test_finish_loop("openmp");
}

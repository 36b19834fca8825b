//#Ranks: 4
//#Mpi: openmpi
//#Cut: loop
//#Timeout: 120
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: atomic operations of floating-point numbers on one rank's memory, by all ranks at once: most are cut while they wait for each other, go on over a library that does such operations in another way, and lose no sum
#include "../stasis_test.h"

/* Many numbers, so that a turn takes long and most wait. */
enum { SUMS = 3, N = 20000, STEPS = 6 };

int main(int argc, char **argv)
{
    static double ones[N], before[N];
    double *memory;
    int64_t added = 0, all = 0;
    MPI_Win win;
    test_start(&argc, &argv);
    MPI_OK(MPI_Win_allocate(SUMS * N * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    for (int i = 0; i < SUMS * N; i++)
        memory[i] = 0;
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Win_lock_all(0, win));
    /* No rank waits for another one but for its turn, so that the cut falls where it finds them. */
    for (int step = 0; step < STEPS || !cut_open(); step++) {
        if (step == 2)
            cut_announce();
        MPI_OK(MPI_Accumulate(ones, N, MPI_DOUBLE, 0, 0, N, MPI_DOUBLE, MPI_SUM, win));
        MPI_OK(MPI_Fetch_and_op(ones, before, MPI_DOUBLE, 0, N, MPI_SUM, win));
        MPI_OK(MPI_Win_flush(0, win));
        MPI_OK(MPI_Get_accumulate(ones, N, MPI_DOUBLE, before, N, MPI_DOUBLE, 0, 2 * N, N, MPI_DOUBLE, MPI_SUM, win));
        MPI_OK(MPI_Win_flush(0, win));
        added++;
    }
    MPI_OK(MPI_Win_unlock_all(win));
    MPI_OK(MPI_Allreduce(&added, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    if (test_rank == 0) {
        MPI_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        for (int i = 0; i < N; i++) {
            CHECK_EQ(memory[i], all);
            CHECK_EQ(memory[N + i], i == 0 ? all : 0);
            CHECK_EQ(memory[2 * N + i], all);
        }
        MPI_OK(MPI_Win_unlock(0, win));
    }
    MPI_OK(MPI_Win_free(&win));
    return test_finish_loop("contended");
}

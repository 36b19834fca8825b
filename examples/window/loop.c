//#Ranks: 3
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle, ten
//#Matrix: full
//#Shows: fences, locks of both kinds and atomic counters in a loop that the cut hits anywhere; windows come and go
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    enum { COUNTER = 0, PLAIN = 1, STRIPE = 8 };
    MPI_Win window = MPI_WIN_NULL;
    long *memory, done = 0;
    test_start(&argc, &argv);
    for (int step = 0; cut_more(step, 40, MPI_COMM_WORLD); step++) {
        int next = (test_rank + 1) % test_size;
        long one = 1, old, value = step * 10 + test_rank, sum = 0;
        if (step % 8 == 0) {
            if (window != MPI_WIN_NULL)
                MPI_OK(MPI_Win_free(&window));
            MPI_OK(MPI_Win_allocate(32 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
            memset(memory, 0, 32 * sizeof(long));
            done = 0;
        }
        MPI_OK(MPI_Win_fence(0, window));
        MPI_OK(MPI_Put(&value, 1, MPI_LONG, next, STRIPE + test_rank, 1, MPI_LONG, window));
        MPI_OK(MPI_Win_fence(0, window));
        CHECK_EQ(memory[STRIPE + (test_rank + test_size - 1) % test_size], step * 10 + (test_rank + test_size - 1) % test_size);
        /* A read and a write under an exclusive lock are one step for everyone else. */
        MPI_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window));
        MPI_OK(MPI_Get(&old, 1, MPI_LONG, 1, PLAIN, 1, MPI_LONG, window));
        MPI_OK(MPI_Win_flush(1, window));
        old++;
        MPI_OK(MPI_Put(&old, 1, MPI_LONG, 1, PLAIN, 1, MPI_LONG, window));
        MPI_OK(MPI_Win_unlock(1, window));
        MPI_OK(MPI_Win_lock(MPI_LOCK_SHARED, 2, 0, window));
        MPI_OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 2, COUNTER, MPI_SUM, window));
        MPI_OK(MPI_Win_unlock(2, window));
        MPI_OK(MPI_Win_lock_all(0, window));
        MPI_OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, COUNTER, 1, MPI_LONG, MPI_SUM, window));
        MPI_OK(MPI_Win_unlock_all(window));
        done++;
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (test_rank < 2) {
            int place = test_rank == 1 ? PLAIN : COUNTER;
            MPI_OK(MPI_Win_lock(MPI_LOCK_SHARED, test_rank, 0, window));
            sum = memory[place];
            MPI_OK(MPI_Win_unlock(test_rank, window));
            CHECK_EQ(sum, done * test_size);
        }
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    if (window != MPI_WIN_NULL)
        MPI_OK(MPI_Win_free(&window));
    return test_finish_loop("window loop");
}

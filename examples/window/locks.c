//#Ranks: 4
//#Shows: locks, shared and exclusive, that are held, waited for, by one or many, and not yet asked for at the cut; requests of one-sided operations
//#Cut: hold
//#Variant: held
//#Variant: waited_for
//#Variant: contended; ranks=6
//#Variant: all
//#Variant: requests
#include "../stasis_test.h"

static MPI_Win window;
static int *memory;

/* Open MPI's accumulates need the target's help to be started, so all stay in MPI at the cut. */
static void cut_probing(void)
{
    struct timespec pause = {0, 200000};
    int found;
    cut_announce();
    while (!cut_open()) {
        MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
        nanosleep(&pause, NULL);
    }
}

static int next_rank(void) { return (test_rank + 1) % test_size; }

/* Everyone holds an exclusive lock on the next one, with operations under way. */
static void held(void)
{
    int value = 100 + test_rank, old = -1;
    MPI_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next_rank(), 0, window));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Put(&value, 1, MPI_INT, next_rank(), 0, 1, MPI_INT, window));
    cut();
    MPI_OK(MPI_Fetch_and_op(&value, &old, MPI_INT, next_rank(), 0, MPI_SUM, window));
    MPI_OK(MPI_Win_unlock(next_rank(), window));
    CHECK_EQ(old, value);
}

/* Rank 0 holds rank 1's lock at the cut; the others wait for it, and add under it. */
static void waited_for(void)
{
    int counter = -1;
    if (test_rank == 0) {
        MPI_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window));
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        cut();
        counter = 500;
        MPI_OK(MPI_Put(&counter, 1, MPI_INT, 1, 3, 1, MPI_INT, window));
        MPI_OK(MPI_Win_unlock(1, window));
    } else {
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        cut_announce();
        MPI_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window));
        MPI_OK(MPI_Get(&counter, 1, MPI_INT, 1, 3, 1, MPI_INT, window));
        MPI_OK(MPI_Win_flush(1, window));
        counter++;
        MPI_OK(MPI_Put(&counter, 1, MPI_INT, 1, 3, 1, MPI_INT, window));
        MPI_OK(MPI_Win_unlock(1, window));
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 1) {
        MPI_OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, window));
        CHECK_EQ(memory[3], 500 + test_size - 1);
        MPI_OK(MPI_Win_unlock(1, window));
    }
}

/* All take rank 0's lock again and again; at the cut rank 0 has it and all others wait for it. Two numbers
   are equal whenever nobody has it exclusively. */
static void contended(void)
{
    enum { STEPS = 12, FIRST = 6 };
    int pair[2];
    for (int step = 0; step < STEPS; step++) {
        int is_cut = step == STEPS / 2;
        if (is_cut) {
            MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
            if (test_rank > 0)
                cut_announce();
        }
        MPI_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
        if (is_cut && test_rank == 0)
            cut_probing();
        MPI_OK(MPI_Get(pair, 2, MPI_INT, 0, FIRST, 2, MPI_INT, window));
        MPI_OK(MPI_Win_flush(0, window));
        CHECK_EQ(pair[0], pair[1]);
        pair[0]++;
        pair[1]++;
        MPI_OK(MPI_Put(&pair[0], 1, MPI_INT, 0, FIRST, 1, MPI_INT, window));
        MPI_OK(MPI_Win_flush(0, window));
        MPI_OK(MPI_Put(&pair[1], 1, MPI_INT, 0, FIRST + 1, 1, MPI_INT, window));
        MPI_OK(MPI_Win_unlock(0, window));
        MPI_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window));
        MPI_OK(MPI_Get(pair, 2, MPI_INT, 0, FIRST, 2, MPI_INT, window));
        MPI_OK(MPI_Win_unlock(0, window));
        CHECK_EQ(pair[0], pair[1]);
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 0)
        CHECK_EQ(memory[FIRST], STEPS * test_size);
}

static void all(void)
{
    int one = 1, sum = 0;
    MPI_OK(MPI_Win_lock_all(0, window));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int rank = 0; rank < test_size; rank++)
        MPI_OK(MPI_Accumulate(&one, 1, MPI_INT, rank, 5, 1, MPI_INT, MPI_SUM, window));
    cut_probing();
    for (int rank = 0; rank < test_size; rank++)
        MPI_OK(MPI_Accumulate(&one, 1, MPI_INT, rank, 5, 1, MPI_INT, MPI_SUM, window));
    MPI_OK(MPI_Win_flush_all(window));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Fetch_and_op(NULL, &sum, MPI_INT, next_rank(), 5, MPI_NO_OP, window));
    MPI_OK(MPI_Win_flush_local(next_rank(), window));
    MPI_OK(MPI_Win_unlock_all(window));
    CHECK_EQ(sum, 2 * test_size);
}

static void requests(void)
{
    MPI_Request pending[4];
    static int big[1 << 16], back[1 << 16];
    int one = 1, old = -1;
    for (int i = 0; i < 1 << 16; i++)
        big[i] = test_rank + i;
    MPI_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, window));
    MPI_OK(MPI_Rput(big, 1 << 16, MPI_INT, next_rank(), 64, 1 << 16, MPI_INT, window, &pending[0]));
    MPI_OK(MPI_Raccumulate(&one, 1, MPI_INT, next_rank(), 1, 1, MPI_INT, MPI_SUM, window, &pending[1]));
    MPI_OK(MPI_Rget_accumulate(&one, 1, MPI_INT, &old, 1, MPI_INT, next_rank(), 2, 1, MPI_INT, MPI_SUM, window, &pending[2]));
    MPI_OK(MPI_Rget(back, 16, MPI_INT, next_rank(), 16, 16, MPI_INT, window, &pending[3]));
    cut_probing();
    for (int i = 0; i < 4; i++)
        MPI_OK(MPI_Wait(&pending[i], MPI_STATUS_IGNORE));
    MPI_OK(MPI_Win_flush_all(window));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Rget(back, 1 << 16, MPI_INT, next_rank(), 64, 1 << 16, MPI_INT, window, &pending[0]));
    MPI_OK(MPI_Wait(&pending[0], MPI_STATUS_IGNORE));
    MPI_OK(MPI_Win_unlock_all(window));
    for (int i = 0; i < 1 << 16; i++)
        CHECK_EQ(back[i], test_rank + i);
    CHECK_EQ(old, 0);
    CHECK_EQ(memory[1], 1);
    CHECK_EQ(memory[2], 1);
}

int main(int argc, char **argv)
{
    MPI_Aint bytes = (64 + (1 << 16)) * sizeof(int);
    test_start(&argc, &argv);
    MPI_OK(MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    memset(memory, 0, bytes);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_is(argc, argv, "held"))
        held();
    else if (test_is(argc, argv, "waited_for"))
        waited_for();
    else if (test_is(argc, argv, "contended"))
        contended();
    else if (test_is(argc, argv, "all"))
        all();
    else
        requests();
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    test_add(memory, 64 * sizeof(int));
    MPI_OK(MPI_Win_free(&window));
    return test_finish("locks");
}

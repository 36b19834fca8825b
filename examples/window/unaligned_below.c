//#Ranks: 3
//#Environment: STASIS_WINDOWS=library
//#Cut: hold
//#Compare: none
//#Shows: windows of the library at odd addresses, and inside memory that was sent: UCX 1.13 takes others natively
#include "../stasis_test.h"

enum { WORDS = 1 << 17, INNER = 50001, LENGTH = 64, GUARD = -1 };

static long *memory;

/* Of the words of a window, and of those around it, only these may have changed. */
static void has(long *window, long put, long sum)
{
    for (int i = -8; i < LENGTH + 8; i++) {
        const long wanted = i == 3 ? put : i == 5 ? sum : GUARD;
        CHECK(window[i] == wanted, "word %d is %ld, should be %ld", i, window[i], wanted);
    }
}

static void clear(long *window)
{
    for (int i = -8; i < LENGTH + 8; i++)
        window[i] = GUARD;
    window[3] = window[5] = 0;
}

/* Each rank puts into the next, adds to it, and reads it. */
static void use(MPI_Win win, long *window, long round)
{
    const int next = (test_rank + 1) % test_size, before = (test_rank + test_size - 1) % test_size;
    long *base, put = round * 100 + test_rank, one = round, old = -1, got[LENGTH];
    int found;
    MPI_OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &found));
    CHECK(found && base == window, "the window begins at %p, not %p", (void *)base, (void *)window);
    clear(window);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Win_lock_all(0, win));
    MPI_OK(MPI_Put(&put, 1, MPI_LONG, next, 3, 1, MPI_LONG, win));
    for (int target = 0; target < test_size; target++)
        MPI_OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, target, 5, MPI_SUM, win));
    MPI_OK(MPI_Win_unlock_all(win));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    has(window, round * 100 + before, round * test_size);
    MPI_OK(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
    MPI_OK(MPI_Get(got, LENGTH, MPI_LONG, next, 0, LENGTH, MPI_LONG, win));
    MPI_OK(MPI_Win_unlock(next, win));
    CHECK_EQ(got[3], put);
    CHECK_EQ(got[5], round * test_size);
    CHECK_EQ(got[0], GUARD);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    test_add(got, sizeof got);
}

int main(int argc, char **argv)
{
    MPI_Win outer, inner;
    MPI_Request request;
    test_start(&argc, &argv);
    const int next = (test_rank + 1) % test_size;
    CHECK(posix_memalign((void **)&memory, 4096, WORDS * sizeof(long)) == 0, "posix_memalign");
    memset(memory, 1, WORDS * sizeof(long));

    /* The library may keep all of it registered from now on. */
    long *copy = malloc(WORDS * sizeof(long));
    MPI_OK(MPI_Irecv(copy, WORDS, MPI_LONG, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &request));
    MPI_OK(MPI_Send(memory, WORDS, MPI_LONG, next, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(memcmp(memory, copy, WORDS * sizeof(long)) == 0, "other bytes arrived");

    long *first = memory + 9, *second = memory + INNER;
    MPI_OK(MPI_Win_create(first, (WORDS - 9) * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &outer));
    MPI_OK(MPI_Win_create(second, LENGTH * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &inner));
    use(outer, first, 1);
    use(inner, second, 2);
    cut();
    use(inner, second, 3);
    use(outer, first, 4);
    MPI_OK(MPI_Win_free(&inner));
    MPI_OK(MPI_Win_free(&outer));
    free(copy);
    free(memory);
    return test_finish("window unaligned below");
}

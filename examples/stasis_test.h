/* What the examples share: checks that say what went wrong, bytes that can be verified, and the
 * points at which the harness cuts.
 *
 * A cut point works by two files, so that nobody has to guess a moment:
 *   $STASIS_TEST_READY.<rank>   made by a rank when it stands where the checkpoint is to fall
 *   $STASIS_TEST_GO             made by the harness when the program may go on
 * Without these variables (a run by hand) no rank ever waits. */
#ifndef STASIS_TEST_H
#define STASIS_TEST_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <mpi.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHARED __attribute__((unused)) static

SHARED int test_rank = -1;
SHARED int test_size = 0;
SHARED uint64_t test_digest = 0xcbf29ce484222325u;

/* Say what is wrong and take the whole job down with exit code 3. */
SHARED void test_fail(const char *file, int line, const char *format, ...)
{
    int up = 0, over = 0;
    va_list list;
    va_start(list, format);
    fprintf(stderr, "FAILED: rank %d, %s:%d: ", test_rank, file, line);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    fflush(NULL);
    MPI_Initialized(&up);
    MPI_Finalized(&over);
    if (up && !over)
        MPI_Abort(MPI_COMM_WORLD, 3);
    _exit(3);
}

#define CHECK(condition, ...)                             \
    do {                                                  \
        if (!(condition))                                 \
            test_fail(__FILE__, __LINE__, #condition "; " __VA_ARGS__); \
    } while (0)

/* Takes integers: both sides are printed when they differ. */
#define CHECK_EQ(left, right)                                                              \
    do {                                                                                   \
        long long left_value = (long long)(left), right_value = (long long)(right);        \
        if (left_value != right_value)                                                     \
            test_fail(__FILE__, __LINE__, #left " is %lld, should be " #right " = %lld",   \
                      left_value, right_value);                                            \
    } while (0)

#define MPI_OK(call) CHECK_EQ(call, MPI_SUCCESS)

/* Add bytes to this rank's digest (FNV-1a). */
SHARED void test_add(const void *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t i = 0; i < n; i++)
        test_digest = (test_digest ^ p[i]) * 0x100000001b3u;
}

SHARED unsigned char test_byte(uint32_t seed, size_t i)
{
    uint32_t x = (uint32_t)(seed * 2654435761u + (uint32_t)i * 40503u);
    x ^= x >> 15;
    x *= 2246822519u;
    return (unsigned char)(x >> 24);
}

/* Fill with bytes that depend on the seed and on the place. */
SHARED void test_fill(void *bytes, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)bytes)[i] = test_byte(seed, i);
}

/* Every byte must be what test_fill made of it. */
SHARED void test_verify_at(const char *file, int line, const void *bytes, size_t n, uint32_t seed)
{
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t i = 0; i < n; i++)
        if (p[i] != test_byte(seed, i))
            test_fail(file, line, "byte %zu of %zu (seed %u) is %02x, should be %02x", i, n, seed,
                      p[i], test_byte(seed, i));
    test_add(bytes, n);
}
#define test_verify(bytes, n, seed) test_verify_at(__FILE__, __LINE__, bytes, n, seed)

/* This rank is where it should be cut. */
SHARED void cut_announce_as(int rank)
{
    const char *prefix = getenv("STASIS_TEST_READY");
    char path[4096];
    if (!prefix)
        return;
    fflush(stdout);
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
}
SHARED void cut_announce(void) { cut_announce_as(test_rank); }

/* May the program go on? */
SHARED int cut_open(void)
{
    const char *path = getenv("STASIS_TEST_GO");
    return !path || access(path, F_OK) == 0;
}

/* Wait, without a single MPI call, until the program may go on. */
SHARED void cut_hold(void)
{
    struct timespec pause = {0, 1000000};
    while (!cut_open())
        nanosleep(&pause, NULL);
}

/* Announce, and stay right here until the checkpoint is taken. No other rank may need this one to
 * reach its own cut: not even a standard send has to return before it is received. */
SHARED void cut(void)
{
    cut_announce();
    cut_hold();
}

/* The same for a rank on whose progress another still depends to reach its cut: a message that was
 * only started may need its sender to enter MPI again before anybody sees it. */
SHARED void cut_testing(MPI_Request *request)
{
    struct timespec pause = {0, 200000};
    int done;
    cut_announce();
    while (!cut_open()) {
        MPI_OK(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        nanosleep(&pause, NULL);
    }
}

/* For programs that are cut while they run (`Cut: loop`): whether to do step number `step`. At
 * least `steps` are done, and more until rank 0 has seen that the checkpoint is taken, so the cut
 * falls inside the loop however slow the machine is. Collective over `comm`. */
SHARED int cut_more(int step, int steps, MPI_Comm comm)
{
    int more = 0;
    if (step == 2)
        cut_announce();
    if (test_rank == 0)
        more = step < steps || !cut_open();
    MPI_OK(MPI_Bcast(&more, 1, MPI_INT, 0, comm));
    return more;
}

SHARED void test_start_threads(int *argc, char ***argv, int level)
{
    int provided = -1;
    MPI_Init_thread(argc, argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
    CHECK(provided >= level, "thread level %d instead of %d", provided, level);
}

SHARED void test_start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &test_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &test_size);
}

/* Is this the variant called `name` (the program's first argument)? */
SHARED int test_is(int argc, char **argv, const char *name)
{
    return argc > 1 && strcmp(argv[1], name) == 0;
}

/* One digest of all ranks' digests, printed by rank 0; then MPI_Finalize. */
SHARED int test_finish(const char *name)
{
    uint64_t all = 0;
    uint64_t mine = test_digest * (2 * (uint64_t)test_rank + 1);
    MPI_OK(MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, MPI_COMM_WORLD));
    if (test_rank == 0) {
        printf("OK %s %016" PRIx64 "\n", name, all);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}

/* As above for programs whose number of steps depends on the cut: no digest. */
SHARED int test_finish_loop(const char *name)
{
    int one = 1, sum = 0;
    MPI_OK(MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
    if (test_rank == 0) {
        CHECK_EQ(sum, test_size);
        printf("OK %s, %d ranks\n", name, test_size);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}

#endif

/* A ring that never stops, at a limit of its process that it has filled by itself: `memory` (RLIMIT_AS), `files`
 * (RLIMIT_NOFILE) or `processes` (RLIMIT_NPROC). A rank that is there writes to $STASIS_TEST_READY.limit.<rank>. It
 * lifts the limit when $STASIS_TEST_GO is there and ends when $STASIS_TEST_GO.end is. */
#include "../stasis_test.h"

#include <errno.h>
#include <sys/resource.h>

static void limit(int what, rlim_t soft)
{
    struct rlimit now;
    CHECK_EQ(getrlimit(what, &now), 0);
    now.rlim_cur = soft < now.rlim_max ? soft : now.rlim_max;
    CHECK_EQ(setrlimit(what, &now), 0);
}

/* No byte more can be mapped, and malloc has crumbs left. Without them Open MPI 4.1 crashes natively, too. */
static void fill_memory(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1, "statm");
    fclose(file);
    limit(RLIMIT_AS, pages * 4096);
    for (size_t size = 1 << 20; size >= 4096; size /= 2)
        while (malloc(size))
            ;
}

static void fill_files(void)
{
    limit(RLIMIT_NOFILE, 128);
    while (open("/dev/null", O_RDONLY) >= 0)
        ;
    CHECK_EQ(errno, EMFILE);
}

static void ring(int steps)
{
    static char out[1000], in[1000];
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    for (int step = 0; step < steps; step++) {
        test_fill(out, sizeof out, (uint32_t)(step + test_rank));
        MPI_OK(MPI_Sendrecv(out, sizeof out, MPI_BYTE, right, 1, in, sizeof in, MPI_BYTE, left, 1,
                            MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(in, sizeof in, (uint32_t)(step + left));
    }
}

/* Each rank has messages that nobody has asked for yet: Open MPI takes memory for these when it needs it. */
static void crowd(void)
{
    enum { MESSAGES = 200 };
    static char out[1000], in[1000];
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    MPI_Request sent[MESSAGES];
    MPI_Status statuses[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        test_fill(out, sizeof out, (uint32_t)test_rank);
        MPI_OK(MPI_Isend(out, sizeof out, MPI_BYTE, right, 2, MPI_COMM_WORLD, sent + i));
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < MESSAGES; i++) {
        MPI_OK(MPI_Recv(in, sizeof in, MPI_BYTE, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(in, sizeof in, (uint32_t)left);
    }
    MPI_OK(MPI_Waitall(MESSAGES, sent, statuses));
}

/* Until a file is there, as rank 0 sees it. */
static void ring_until(const char *path)
{
    for (int go = 0; !go;) {
        ring(10);
        go = test_rank == 0 && access(path, F_OK) == 0;
        MPI_OK(MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    char end[4096], path[4096];
    test_start(&argc, &argv);
    CHECK_EQ(argc, 2);
    const char *go = getenv("STASIS_TEST_GO"), *ready = getenv("STASIS_TEST_READY");
    CHECK(go && ready, "see above");
    snprintf(end, sizeof end, "%s.end", go);
    snprintf(path, sizeof path, "%s.limit.%d", ready, test_rank);
    int there = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    /* What MPI takes in the course of time it has taken. */
    crowd();
    ring(2000);
    setvbuf(stdout, NULL, _IONBF, 0);
    switch (argv[1][0]) {
    case 'm': fill_memory(); break;
    case 'f': fill_files(); break;
    default: limit(RLIMIT_NPROC, 0);
    }
    CHECK_EQ(write(there, "x", 1), 1);
    ring_until(go);
    limit(RLIMIT_AS, RLIM_INFINITY);
    limit(RLIMIT_NOFILE, RLIM_INFINITY);
    limit(RLIMIT_NPROC, RLIM_INFINITY);
    while (close(there++) == 0)
        ;
    cut_announce();
    ring_until(end);
    MPI_OK(MPI_Finalize());
    if (test_rank == 0)
        puts("at_limit: right");
    return 0;
}

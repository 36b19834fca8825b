//#Ranks: 3
//#Modes: plain
//#Compare: none
//#Shows: a balancer that decides by its own time: who gets how much, and what is printed, differ from run to run
#include "../stasis_test.h"

#include <sys/syscall.h>
#include <sys/time.h>

enum { ROUNDS = 40, MOST = 1000, READ = 6 };

static int64_t read_in[ROUNDS][READ];

static int64_t of(clockid_t clock)
{
    struct timespec now;
    CHECK_EQ(clock_gettime(clock, &now), 0);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* As a program without a C library does. */
static int64_t raw(clockid_t clock)
{
    struct timespec now;
    CHECK_EQ(syscall(SYS_clock_gettime, clock, &now), 0);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int64_t of_day(void)
{
    struct timeval now;
    CHECK_EQ(gettimeofday(&now, NULL), 0);
    return now.tv_sec * 1000000L + now.tv_usec;
}

/* Some work, and how long it took. */
static double measured(int share)
{
    double begun = MPI_Wtime();
    volatile double sum = 0;
    for (int i = 0; i < share * 200; i++)
        sum += i;
    double took = MPI_Wtime() - begun;
    CHECK(took >= 0, "MPI_Wtime went back by %g s", -took);
    return took;
}

int main(int argc, char **argv)
{
    /* As a seed is drawn. */
    int64_t seed = time(NULL);
    seed ^= of_day();
    seed ^= of(CLOCK_REALTIME);
    test_start(&argc, &argv);
    int share = MOST / 2, data[MOST] = {0};
    int64_t before = of(CLOCK_MONOTONIC);
    for (int round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS / 2)
            cut();
        double took = measured(share);
        test_add(&took, sizeof took);
        /* Who was slow gets less, and the next rank gets as many data: another message in each run. */
        share = 1 + (int)(took * 1e9) % (MOST - 1);
        int next = (test_rank + 1) % test_size, last = (test_rank + test_size - 1) % test_size, got = 0;
        MPI_Status status;
        MPI_OK(MPI_Sendrecv(data, share, MPI_INT, next, share % 7, data, MOST, MPI_INT, last, MPI_ANY_TAG,
                            MPI_COMM_WORLD, &status));
        MPI_OK(MPI_Get_count(&status, MPI_INT, &got));
        test_add(&got, sizeof got);
        int64_t now = round % 2 ? of(CLOCK_MONOTONIC) : raw(CLOCK_MONOTONIC);
        CHECK(now >= before, "the clock went back by %lld ns", (long long)(before - now));
        before = now;
        int64_t *all = read_in[round];
        all[0] = now;
        all[1] = of(CLOCK_REALTIME);
        all[2] = raw(CLOCK_REALTIME);
        all[3] = of_day();
        all[4] = time(NULL);
        all[5] = share;
        test_add(all, sizeof read_in[round]);
    }
    /* All output comes behind the cut. */
    for (int round = 0; round < ROUNDS && test_rank == 0; round++)
        for (int i = 0; i < READ; i++)
            printf("%lld%c", (long long)read_in[round][i], i + 1 < READ ? ' ' : '\n');
    if (test_rank == 0)
        printf("seed %lld, processor time %ld\n", (long long)seed, (long)clock());
    test_add(&seed, sizeof seed);
    return test_finish("clocks");
}

//#Ranks: 2
//#Cut: loop
//#Flags: -pthread
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: threads that make system calls all the time, wait in them, and are interrupted in them by a handler that makes some, too
#include "../stasis_test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>

static int over, pipe_ends[2], file;
static char name[] = "system-calls-XXXXXX";
static long handled, rounds[2];

static int is_over(void) { return __atomic_load_n(&over, __ATOMIC_SEQ_CST); }

static void on_alarm(int signal)
{
    char byte;
    CHECK_EQ(pread(file, &byte, 1, 5), 1);
    CHECK_EQ(byte, 5);
    CHECK_EQ(getppid() > 0, 1);
    __atomic_fetch_add(&handled, signal == SIGALRM, __ATOMIC_SEQ_CST);
}

/* Calls that the kernel serves as they are, and calls that the loader changes. */
static void *hammers(void *argument)
{
    unsigned char block[256];
    struct stat facts;
    const pid_t own = getpid();
    while (!is_over()) {
        CHECK_EQ(getpid(), own);
        CHECK_EQ(pread(file, block, sizeof block, 0), sizeof block);
        for (int i = 0; i < 256; i++)
            CHECK_EQ(block[i], i);
        CHECK_EQ(pwrite(file, block + 8, 8, 8), 8);
        CHECK_EQ(fstat(file, &facts), 0);
        CHECK_EQ(facts.st_size, 256);
        const int again = open(name, O_RDONLY);
        CHECK(again >= 0, "%s: %m", name);
        CHECK_EQ(read(again, block, 2), 2);
        CHECK_EQ(lseek(again, 0, SEEK_CUR), 2);
        CHECK_EQ(close(again), 0);
        char *map = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(map != MAP_FAILED, "mmap: %m");
        map[4097] = 1;
        CHECK_EQ(munmap(map, 65536), 0);
        __atomic_fetch_add(&rounds[0], 1, __ATOMIC_SEQ_CST);
    }
    return argument;
}

/* Waits in read() for a byte of each step. */
static void *waits(void *argument)
{
    unsigned char byte;
    for (long n = 0;; n++) {
        CHECK_EQ(read(pipe_ends[0], &byte, 1), 1);
        if (byte == 255)
            return argument;
        CHECK_EQ(byte, n % 200);
        __atomic_fetch_add(&rounds[1], 1, __ATOMIC_SEQ_CST);
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    unsigned char block[256], byte;
    test_start_threads(&argc, &argv, MPI_THREAD_FUNNELED);
    file = mkstemp(name);
    CHECK(file >= 0, "%s: %m", name);
    for (int i = 0; i < 256; i++)
        block[i] = i;
    CHECK_EQ(write(file, block, sizeof block), sizeof block);
    CHECK_EQ(pipe(pipe_ends), 0);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
    struct itimerval every = {{0, 1500}, {0, 1500}}, never = {{0, 0}, {0, 0}};
    CHECK_EQ(setitimer(ITIMER_REAL, &every, NULL), 0);
    CHECK_EQ(pthread_create(&threads[0], NULL, hammers, NULL), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, waits, NULL), 0);
    long steps = 0;
    for (int step = 0; cut_more(step, 200, MPI_COMM_WORLD); step++, steps++) {
        int out = step, in = -1, other = 1 - test_rank;
        MPI_OK(MPI_Sendrecv(&out, 1, MPI_INT, other, 1, &in, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(in, step);
        byte = step % 200;
        CHECK_EQ(write(pipe_ends[1], &byte, 1), 1);
    }
    const long seen = __atomic_load_n(&rounds[0], __ATOMIC_SEQ_CST);
    const long alarms = __atomic_load_n(&handled, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&rounds[0], __ATOMIC_SEQ_CST) < seen + 20)
        sched_yield();
    while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) < alarms + 2)
        sched_yield();
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    byte = 255;
    CHECK_EQ(write(pipe_ends[1], &byte, 1), 1);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(rounds[1], steps);
    CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
    CHECK_EQ(unlink(name), 0);
    return test_finish_loop("system_calls");
}

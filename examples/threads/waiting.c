//#Ranks: 2
//#Cut: hold
//#Flags: -pthread
//#Timeout: 90
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: threads that wait in system calls at the cut: each goes on for the rest of its time and sees no interruption
#include "../stasis_test.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/syscall.h>

/* All wait for SPAN seconds and are cut when most of them are over. Who then sleeps anew, for less
 * than SPAN but more than what should be left, must wake up last. */
enum { SPAN = 8, CUT_AFTER = 5, ANEW = 6 };

static int done;
static volatile sig_atomic_t ticks;
static uint32_t word = 7;
static const struct timespec span = {SPAN, 0};

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static struct timespec at_end(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += SPAN;
    return t;
}

static void in_nanosleep(void)
{
    struct timespec left = span;
    CHECK_EQ(nanosleep(&left, &left), 0);
    CHECK(left.tv_sec == SPAN && left.tv_nsec == 0, "a sleep that was not interrupted has changed its argument");
}
static void in_clock_nanosleep(void) { CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, 0, &span, NULL), 0); }
static void in_absolute_sleep(void)
{
    struct timespec end = at_end(CLOCK_MONOTONIC);
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL), 0);
}
static void in_poll(void) { CHECK_EQ(poll(NULL, 0, SPAN * 1000), 0); }
static void in_ppoll(void)
{
    sigset_t none;
    sigemptyset(&none);
    CHECK_EQ(ppoll(NULL, 0, &span, &none), 0);
}
static void in_select(void)
{
    struct timeval t = {SPAN, 0};
    CHECK_EQ(select(0, NULL, NULL, NULL, &t), 0);
    CHECK(t.tv_sec == 0 && t.tv_usec == 0, "%ld s %ld us are left", t.tv_sec, t.tv_usec);
}
static void in_old_select(void)
{
    struct timeval t = {SPAN, 0};
    CHECK_EQ(syscall(SYS_select, 0, NULL, NULL, NULL, &t), 0);
    CHECK(t.tv_sec == 0 && t.tv_usec == 0, "%ld s %ld us are left", t.tv_sec, t.tv_usec);
}
static void in_sigtimedwait(void)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGURG);
    CHECK(sigtimedwait(&one, NULL, &span) == -1 && errno == EAGAIN, "errno %d", errno);
}
static void in_futex(void)
{
    long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, &span, NULL, 0);
    CHECK(result == -1 && errno == ETIMEDOUT, "%ld, errno %d", result, errno);
}
static void in_condition(clockid_t clock)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_t attributes;
    pthread_cond_t condition;
    struct timespec end = at_end(clock);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, clock);
    pthread_cond_init(&condition, &attributes);
    pthread_mutex_lock(&mutex);
    int result = 0;
    while (result == 0)
        result = pthread_cond_timedwait(&condition, &mutex, &end);
    CHECK_EQ(result, ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
}
static void in_monotonic_condition(void) { in_condition(CLOCK_MONOTONIC); }
static void in_wall_condition(void) { in_condition(CLOCK_REALTIME); }
static void in_semaphore(void)
{
    sem_t semaphore;
    struct timespec end = at_end(CLOCK_REALTIME);
    sem_init(&semaphore, 0, 0);
    CHECK(sem_timedwait(&semaphore, &end) == -1 && errno == ETIMEDOUT, "errno %d", errno);
}

static void (*const waits[])(void) = {
    in_nanosleep, in_clock_nanosleep, in_absolute_sleep, in_poll, in_ppoll, in_select, in_old_select,
    in_sigtimedwait, in_futex, in_monotonic_condition, in_wall_condition, in_semaphore,
};
enum { WAITS = sizeof waits / sizeof *waits };

static void *wait_in(void *how)
{
    /* The wall clock runs on while the program is on disk, the other one stands still. */
    int of_wall = how == (void *)in_wall_condition || how == (void *)in_semaphore;
    clockid_t clock = of_wall ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    int64_t begun = now(clock);
    ((void (*)(void))how)();
    CHECK(now(clock) - begun >= SPAN * INT64_C(1000000000) - 2000000, "woke up too early");
    __atomic_fetch_add(&done, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Threads that nothing wakes up but another thread, after the cut. */
static sem_t raised;
static void *wait_for_signal(void *argument)
{
    sigset_t none;
    sigfillset(&none);
    sigdelset(&none, SIGUSR2);
    CHECK(sigsuspend(&none) == -1 && errno == EINTR, "errno %d", errno);
    CHECK_EQ(ticks, 1);
    return argument;
}
static void *wait_for_post(void *argument)
{
    CHECK_EQ(sem_wait(&raised), 0);
    return argument;
}
static void on_usr2(int signal) { ticks += signal == SIGUSR2; }

int main(int argc, char **argv)
{
    test_start_threads(&argc, &argv, MPI_THREAD_FUNNELED);
    int64_t before = now(CLOCK_MONOTONIC), boot = now(CLOCK_BOOTTIME);
    struct sigaction action = {.sa_handler = on_usr2};
    sigset_t usr2;
    sigaction(SIGUSR2, &action, NULL);
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &usr2, NULL);
    sem_init(&raised, 0, 0);

    pthread_t threads[WAITS], for_signal, for_post;
    void *result;
    for (int i = 0; i < WAITS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, wait_in, (void *)waits[i]), 0);
    CHECK_EQ(pthread_create(&for_signal, NULL, wait_for_signal, &raised), 0);
    CHECK_EQ(pthread_create(&for_post, NULL, wait_for_post, &raised), 0);
    sleep(CUT_AFTER);
    cut();
    CHECK_EQ(sleep(ANEW), 0);
    CHECK_EQ(__atomic_load_n(&done, __ATOMIC_SEQ_CST), WAITS);
    for (int i = 0; i < WAITS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(pthread_kill(for_signal, SIGUSR2), 0);
    CHECK(pthread_join(for_signal, &result) == 0 && result == &raised, "the waiting thread");
    CHECK_EQ(sem_post(&raised), 0);
    CHECK(pthread_join(for_post, &result) == 0 && result == &raised, "the waiting thread");
    CHECK(now(CLOCK_MONOTONIC) > before && now(CLOCK_BOOTTIME) > boot, "time runs backwards");
    return test_finish("waiting");
}

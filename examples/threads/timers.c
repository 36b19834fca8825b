//#Ranks: 2
//#Cut: hold
//#Flags: -pthread
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: POSIX timers of every kind of notification, armed, idle and expired at the cut, and the interval timers of processor time
#include "../stasis_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static volatile int signals, values, threads, told, virtual_ticks;
static timer_t by_signal;

static void on_timer(int signal, siginfo_t *info, void *context)
{
    (void)context;
    signals += signal == SIGRTMIN + 3 && info->si_code == SI_TIMER;
    values = info->si_value.sival_int;
}
static void on_virtual(int signal) { virtual_ticks += signal == SIGVTALRM; }
static void on_thread(union sigval value) { __atomic_fetch_add(&threads, value.sival_int, __ATOMIC_SEQ_CST); }

/* Gets the signals of a timer that names this thread. */
static int tid_told;
static void *is_told(void *argument)
{
    sigset_t one;
    siginfo_t info;
    sigemptyset(&one);
    sigaddset(&one, SIGRTMIN + 4);
    __atomic_store_n(&tid_told, syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    for (;;) {
        if (sigwaitinfo(&one, &info) == -1) {
            CHECK_EQ(errno, EINTR);
            continue;
        }
        CHECK_EQ(info.si_signo, SIGRTMIN + 4);
        if (info.si_code == SI_USER)
            return argument;
        CHECK_EQ(info.si_code, SI_TIMER);
        CHECK_EQ(info.si_value.sival_int, 44);
        __atomic_fetch_add(&told, 1, __ATOMIC_SEQ_CST);
    }
}

static timer_t make(clockid_t clock, struct sigevent event)
{
    timer_t timer;
    CHECK_EQ(timer_create(clock, &event, &timer), 0);
    return timer;
}

static void arm(timer_t timer, int flags, struct timespec first, struct timespec interval)
{
    struct itimerspec times = {.it_value = first, .it_interval = interval};
    CHECK_EQ(timer_settime(timer, flags, &times, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct timespec often = {0, 5000000}, never = {0, 0}, long_time = {100000, 0}, soon = {0, 1000};
    struct timespec wall, nap = {0, 1000000};
    struct itimerspec now;
    sigset_t usr1, rt4;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    /* Before the library makes threads: nobody must take what is sent to the process. */
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    test_start_threads(&argc, &argv, MPI_THREAD_FUNNELED);
    sigemptyset(&rt4);
    sigaddset(&rt4, SIGRTMIN + 4);
    pthread_sigmask(SIG_BLOCK, &rt4, NULL);
    struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGRTMIN + 3, &action, NULL);
    struct sigaction on_vt = {.sa_handler = on_virtual, .sa_flags = SA_RESTART};
    sigaction(SIGVTALRM, &on_vt, NULL);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, is_told, NULL), 0);
    while (__atomic_load_n(&tid_told, __ATOMIC_SEQ_CST) == 0)
        nanosleep(&nap, NULL);

    /* A place in the middle is free, so that the others' ids are not simply counted. */
    timer_t gone = make(CLOCK_MONOTONIC, (struct sigevent){.sigev_notify = SIGEV_NONE});
    by_signal = make(CLOCK_MONOTONIC, (struct sigevent){.sigev_notify = SIGEV_SIGNAL,
                                                        .sigev_signo = SIGRTMIN + 3,
                                                        .sigev_value.sival_int = 33});
    CHECK_EQ(timer_delete(gone), 0);
    timer_t silent = make(CLOCK_BOOTTIME, (struct sigevent){.sigev_notify = SIGEV_NONE});
    timer_t idle = make(CLOCK_REALTIME, (struct sigevent){.sigev_notify = SIGEV_NONE});
    timer_t of_wall = make(CLOCK_REALTIME, (struct sigevent){.sigev_notify = SIGEV_NONE});
    timer_t by_thread = make(CLOCK_MONOTONIC, (struct sigevent){.sigev_notify = SIGEV_THREAD,
                                                                .sigev_notify_function = on_thread,
                                                                .sigev_value.sival_int = 1});
    struct sigevent to_thread = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 4, .sigev_value.sival_int = 44};
    to_thread.sigev_notify_thread_id = tid_told;
    timer_t by_id = make(CLOCK_MONOTONIC, to_thread);
    /* One that has expired before the cut while its signal is held back. */
    timer_t expired = make(CLOCK_MONOTONIC, (struct sigevent){.sigev_notify = SIGEV_SIGNAL,
                                                             .sigev_signo = SIGUSR1,
                                                             .sigev_value.sival_int = 11});
    arm(expired, 0, soon, never);
    arm(by_signal, 0, often, often);
    arm(silent, 0, long_time, often);
    clock_gettime(CLOCK_REALTIME, &wall);
    wall.tv_sec += 200000;
    arm(of_wall, TIMER_ABSTIME, wall, never);
    arm(by_thread, 0, often, often);
    arm(by_id, 0, often, often);
    struct itimerval processor = {{0, 5000}, {0, 5000}};
    CHECK_EQ(setitimer(ITIMER_VIRTUAL, &processor, NULL), 0);
    struct itimerval much = {{0, 0}, {100000, 0}}, left;
    CHECK_EQ(setitimer(ITIMER_PROF, &much, NULL), 0);
    sigset_t pending;
    do {
        nanosleep(&nap, NULL);
        sigpending(&pending);
    } while (!sigismember(&pending, SIGUSR1));

    cut();

    int seen = __atomic_load_n(&signals, __ATOMIC_SEQ_CST), by_threads = threads, by_told = told, ticks = virtual_ticks;
    while (__atomic_load_n(&signals, __ATOMIC_SEQ_CST) < seen + 3 || __atomic_load_n(&threads, __ATOMIC_SEQ_CST) < by_threads + 3 ||
           __atomic_load_n(&told, __ATOMIC_SEQ_CST) < by_told + 3)
        nanosleep(&nap, NULL);
    CHECK_EQ(values, 33);
    while (__atomic_load_n(&virtual_ticks, __ATOMIC_SEQ_CST) < ticks + 3)
        ;
    siginfo_t info;
    CHECK_EQ(sigwaitinfo(&usr1, &info), SIGUSR1);
    CHECK_EQ(info.si_code, SI_TIMER);
    CHECK_EQ(info.si_value.sival_int, 11);
    CHECK_EQ(timer_gettime(silent, &now), 0);
    CHECK(now.it_value.tv_sec > 99000 && now.it_interval.tv_nsec == often.tv_nsec, "%ld s are left", now.it_value.tv_sec);
    CHECK_EQ(timer_gettime(of_wall, &now), 0);
    CHECK(now.it_value.tv_sec > 199000 && now.it_value.tv_sec <= 200000, "%ld s are left", now.it_value.tv_sec);
    CHECK_EQ(timer_gettime(idle, &now), 0);
    CHECK(now.it_value.tv_sec == 0 && now.it_value.tv_nsec == 0, "it runs");
    CHECK_EQ(timer_gettime(expired, &now), 0);
    CHECK(now.it_value.tv_sec == 0 && now.it_value.tv_nsec == 0, "it runs again");
    CHECK_EQ(getitimer(ITIMER_PROF, &left), 0);
    CHECK(left.it_value.tv_sec > 99000, "%ld s are left", left.it_value.tv_sec);
    CHECK(timer_getoverrun(by_signal) >= 0, "errno %d", errno);
    timer_t all[] = {by_signal, silent, idle, of_wall, by_thread, by_id, expired};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK_EQ(timer_delete(all[i]), 0);
    CHECK(syscall(SYS_timer_delete, 1) == -1 && errno == EINVAL, "errno %d", errno);
    processor = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_VIRTUAL, &processor, NULL);
    CHECK_EQ(pthread_kill(thread, SIGRTMIN + 4), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return test_finish("timers");
}

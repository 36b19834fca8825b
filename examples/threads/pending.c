//#Ranks: 2
//#Cut: hold
//#Flags: -pthread
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: signals sent before the cut and delivered after it, to the process and to one thread, with what came with them; a cut inside a handler on an alternate stack
#include "../stasis_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

enum { QUEUED = 5 };

static sigset_t held;
static volatile sig_atomic_t handled, on_own_stack, in_order;
static pthread_barrier_t meet;

static siginfo_t next(int signal)
{
    siginfo_t info;
    sigset_t one;
    struct timespec at_once = {0, 0};
    memset(&info, 0, sizeof info);
    sigemptyset(&one);
    sigaddset(&one, signal);
    int got = sigtimedwait(&one, &info, &at_once);
    CHECK(got == signal, "signal %d: got %d, errno %d", signal, got, errno);
    return info;
}

static void none(int signal)
{
    sigset_t pending;
    sigpending(&pending);
    CHECK(!sigismember(&pending, signal), "signal %d is there", signal);
}

/* A thread for which signals of its own wait, and which must get no other's. */
static void *target(void *argument)
{
    int number = (int)(intptr_t)argument;
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    siginfo_t info = next(SIGRTMIN + 5);
    CHECK_EQ(info.si_value.sival_int, 700 + number);
    CHECK_EQ(info.si_code, SI_QUEUE);
    CHECK_EQ(info.si_pid, getpid());
    CHECK_EQ(next(SIGUSR1).si_code, SI_USER);
    none(SIGUSR1);
    none(SIGRTMIN + 5);
    pthread_barrier_wait(&meet);
    return argument;
}

static void on_urg(int signal, siginfo_t *info, void *context)
{
    (void)context;
    handled += signal == SIGURG && info->si_pid == getpid() && info->si_code == SI_QUEUE;
    in_order = in_order * 10 + info->si_value.sival_int;
}

/* The whole cut happens in here. */
static void on_usr2(int signal)
{
    stack_t now;
    int depth = signal;
    sigaltstack(NULL, &now);
    on_own_stack += (now.ss_flags & SS_ONSTACK) != 0;
    on_own_stack += (char *)&depth >= (char *)now.ss_sp && (char *)&depth < (char *)now.ss_sp + now.ss_size;
    cut();
    sigaltstack(NULL, &now);
    on_own_stack += (now.ss_flags & SS_ONSTACK) != 0;
}

int main(int argc, char **argv)
{
    /* Before the library makes threads: nobody must take what is sent to the process. */
    sigfillset(&held);
    sigdelset(&held, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &held, NULL);
    test_start_threads(&argc, &argv, MPI_THREAD_FUNNELED);
    pthread_barrier_init(&meet, NULL, 3);
    pthread_t threads[2];
    for (intptr_t i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, target, (void *)i), 0);
    pthread_barrier_wait(&meet);

    for (int i = 0; i < QUEUED; i++)
        CHECK_EQ(sigqueue(getpid(), SIGRTMIN + 6, (union sigval){.sival_int = 100 + i}), 0);
    CHECK_EQ(kill(getpid(), SIGCHLD), 0);
    CHECK_EQ(kill(getpid(), SIGSEGV), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_sigqueue(threads[i], SIGRTMIN + 5, (union sigval){.sival_int = 700 + i}), 0);
        CHECK_EQ(pthread_kill(threads[i], SIGUSR1), 0);
    }
    struct sigaction action = {.sa_sigaction = on_urg, .sa_flags = SA_SIGINFO};
    sigfillset(&action.sa_mask);
    sigaction(SIGURG, &action, NULL);
    CHECK_EQ(sigqueue(getpid(), SIGURG, (union sigval){.sival_int = 3}), 0);
    struct sigaction cutting = {.sa_handler = on_usr2, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR2, &cutting, NULL);
    static char room[131072];
    stack_t own = {.ss_sp = room, .ss_size = sizeof room}, now;
    CHECK_EQ(sigaltstack(&own, NULL), 0);

    raise(SIGUSR2);

    CHECK_EQ(on_own_stack, 3);
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    CHECK(now.ss_sp == room && now.ss_size == sizeof room && now.ss_flags == 0, "another alternate stack");
    pthread_barrier_wait(&meet);
    none(SIGUSR1);
    none(SIGRTMIN + 5);
    pthread_barrier_wait(&meet);
    for (int i = 0; i < QUEUED; i++) {
        siginfo_t info = next(SIGRTMIN + 6);
        CHECK_EQ(info.si_value.sival_int, 100 + i);
        CHECK_EQ(info.si_code, SI_QUEUE);
        CHECK_EQ(info.si_pid, getpid());
    }
    none(SIGRTMIN + 6);
    CHECK_EQ(next(SIGCHLD).si_code, SI_USER);
    CHECK_EQ(next(SIGSEGV).si_pid, getpid());
    CHECK_EQ(handled, 0);
    sigdelset(&held, SIGURG);
    pthread_sigmask(SIG_SETMASK, &held, NULL);
    CHECK_EQ(handled, 1);
    CHECK_EQ(in_order, 3);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    sigemptyset(&held);
    pthread_sigmask(SIG_SETMASK, &held, NULL);
    CHECK_EQ(handled, 1);
    return test_finish("pending");
}

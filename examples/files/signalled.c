//#Ranks: 2
//#Cut: hold
//#Flags: -pthread
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: signal-driven input (O_ASYNC) of pipes and sockets: owner, thread, process group and signal of an open file
#include "../stasis_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static int pair[2];
static pthread_barrier_t meet;

/* The next of these signals, which are blocked. */
static siginfo_t next(int first, int second)
{
    struct timespec limit = {20, 0};
    siginfo_t info;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, first);
    sigaddset(&set, second);
    CHECK(sigtimedwait(&set, &info, &limit) > 0, "no signal: %s", strerror(errno));
    return info;
}

static int of_thread(int tid)
{
    struct f_owner_ex owner = {-1, -1};
    CHECK_EQ(fcntl(pair[0], F_GETOWN_EX, &owner), 0);
    return owner.type == F_OWNER_TID && owner.pid == tid;
}

static void *owns(void *argument)
{
    int tid = (int)syscall(SYS_gettid);
    struct f_owner_ex owner = {F_OWNER_TID, tid};
    CHECK_EQ(fcntl(pair[0], F_SETOWN_EX, &owner), 0);
    CHECK_EQ(fcntl(pair[0], F_SETSIG, SIGRTMIN + 6), 0);
    CHECK_EQ(fcntl(pair[0], F_SETFL, O_ASYNC | O_NONBLOCK), 0);
    CHECK(of_thread(tid), "the owner at first");
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    CHECK(of_thread(tid), "the owner");
    CHECK_EQ(write(pair[1], "ab", 2), 2);
    siginfo_t info = next(SIGRTMIN + 6, SIGRTMIN + 6);
    CHECK_EQ(info.si_fd, pair[0]);
    return argument;
}

int main(int argc, char **argv)
{
    int ends[2], plain[2], group[2];
    char text[8];
    sigset_t set;
    pthread_t thread;
    /* Blocked in the threads of the MPI library, too. */
    sigemptyset(&set);
    sigaddset(&set, SIGIO);
    sigaddset(&set, SIGRTMIN + 5);
    sigaddset(&set, SIGRTMIN + 6);
    sigprocmask(SIG_BLOCK, &set, NULL);
    test_start(&argc, &argv);

    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(fcntl(ends[0], F_SETOWN, getpid()), 0);
    CHECK_EQ(fcntl(ends[0], F_SETSIG, SIGRTMIN + 5), 0);
    CHECK_EQ(fcntl(ends[0], F_SETFL, O_ASYNC), 0);
    CHECK_EQ(pipe(plain), 0);
    CHECK_EQ(fcntl(plain[0], F_SETOWN, getpid()), 0);
    CHECK_EQ(fcntl(plain[0], F_SETFL, O_ASYNC), 0);
    CHECK_EQ(pipe(group), 0);
    CHECK_EQ(fcntl(group[0], F_SETOWN, -getpgrp()), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pthread_barrier_init(&meet, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, owns, NULL), 0);
    pthread_barrier_wait(&meet);
    /* One that comes before the cut stays in the pipe, and its signal is pending. */
    CHECK_EQ(write(plain[1], "x", 1), 1);

    cut();

    pthread_barrier_wait(&meet);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(read(pair[0], text, sizeof text), 2);
    CHECK_EQ(fcntl(ends[0], F_GETOWN), getpid());
    CHECK_EQ(fcntl(ends[0], F_GETSIG), SIGRTMIN + 5);
    CHECK(fcntl(ends[0], F_GETFL) & O_ASYNC, "the pipe");
    CHECK_EQ(fcntl(group[0], F_GETOWN), -getpgrp());
    CHECK(!(fcntl(group[0], F_GETFL) & O_ASYNC), "the group's pipe");
    CHECK_EQ(next(SIGIO, SIGIO).si_signo, SIGIO);
    CHECK_EQ(write(ends[1], "yz", 2), 2);
    CHECK_EQ(next(SIGRTMIN + 5, SIGIO).si_fd, ends[0]);
    CHECK_EQ(write(plain[1], "x", 1), 1);
    CHECK_EQ(next(SIGIO, SIGIO).si_signo, SIGIO);
    CHECK_EQ(read(plain[0], text, sizeof text), 2);
    return test_finish("signalled");
}

//#Ranks: 2
//#Cut: hold
//#Modes: plain, continue, restart, migrate, cycle
//#Flags: -pthread
//#Shows: eventfd, timerfd, signalfd and epoll, one inside the other, and a thread that waits in epoll_wait; /dev/null and /dev/urandom; standard input
#include "../stasis_test.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

static int quit, loop;

static void watch(int epoll, int fd, uint32_t events, uint64_t data)
{
    struct epoll_event event = {.events = events, .data.u64 = data};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "errno %d", errno);
}

static uint64_t number(int fd)
{
    uint64_t value = 0;
    return read(fd, &value, sizeof value) == sizeof value ? value : 0;
}

static void *run_loop(void *unused)
{
    struct epoll_event event;
    int n;
    while ((n = epoll_wait(loop, &event, 1, -1)) < 0 && errno == EINTR)
        ;
    CHECK_EQ(n, 1);
    CHECK_EQ(event.data.u64, 0xfedcba9876543210u);
    CHECK_EQ(number(quit), 1);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    sigset_t set;
    struct epoll_event event;
    test_start(&argc, &argv);

    int counter = eventfd(5, EFD_NONBLOCK), semaphore = eventfd(3, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
    int soon = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), late = timerfd_create(CLOCK_REALTIME, 0);
    int idle = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec often = {{0, 20000000}, {0, 20000000}}, day = {{0, 0}, {0, 0}}, now;
    CHECK_EQ(timerfd_settime(soon, 0, &often, NULL), 0);
    struct timespec today;
    clock_gettime(CLOCK_REALTIME, &today);
    day.it_value.tv_sec = today.tv_sec + 86400;
    CHECK_EQ(timerfd_settime(late, TFD_TIMER_ABSTIME, &day, NULL), 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 3);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    int nothing = inotify_init1(IN_NONBLOCK);

    quit = eventfd(0, 0);
    loop = epoll_create1(EPOLL_CLOEXEC);
    watch(loop, quit, EPOLLIN | EPOLLET, 0xfedcba9876543210u);
    int outer = epoll_create1(0), inner = epoll_create1(0);
    watch(inner, signals, EPOLLIN, 1);
    watch(outer, inner, EPOLLIN, 2);
    /* An entry of a number that is closed, while another number of the same file is open. */
    int closed = eventfd(0, EFD_NONBLOCK), kept = dup(closed);
    watch(outer, closed, EPOLLIN | EPOLLONESHOT, 3);
    close(closed);
    int other = eventfd(9, 0);
    CHECK_EQ(other, closed);
    int epoll_twin = dup(outer);
    pthread_create(&thread, NULL, run_loop, NULL);

    int null = open("/dev/null", O_RDWR), random = open("/dev/urandom", O_RDONLY);
    int input = dup(STDIN_FILENO);

    cut();

    CHECK_EQ(number(counter), 5);
    CHECK_EQ(number(counter), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(number(semaphore), 1);
    CHECK_EQ(number(semaphore), 0);
    CHECK_EQ(fcntl(semaphore, F_GETFD), FD_CLOEXEC);
    struct pollfd ready = {.fd = soon, .events = POLLIN};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(poll(&ready, 1, -1), 1);
        CHECK(number(soon) >= 1, "no expiration");
    }
    CHECK(timerfd_gettime(soon, &now) == 0 && now.it_interval.tv_nsec == 20000000, "another interval");
    CHECK(timerfd_gettime(late, &now) == 0 && now.it_value.tv_sec > 80000 && now.it_value.tv_sec < 86401,
          "%ld s left", (long)now.it_value.tv_sec);
    CHECK(timerfd_gettime(idle, &now) == 0 && now.it_value.tv_sec == 0 && now.it_value.tv_nsec == 0, "it runs");

    CHECK_EQ(epoll_wait(outer, &event, 1, 0), 0);
    CHECK_EQ(raise(SIGRTMIN + 3), 0);
    CHECK_EQ(epoll_wait(epoll_twin, &event, 1, -1), 1);
    CHECK_EQ(event.data.u64, 2);
    CHECK_EQ(epoll_wait(inner, &event, 1, 0), 1);
    CHECK_EQ(event.data.u64, 1);
    struct signalfd_siginfo info;
    CHECK_EQ(read(signals, &info, sizeof info), sizeof info);
    CHECK_EQ(info.ssi_signo, SIGRTMIN + 3);
    CHECK(read(signals, &info, sizeof info) == -1 && errno == EAGAIN, "errno %d", errno);
    CHECK_EQ(number(other), 9);
    CHECK_EQ(epoll_wait(outer, &event, 1, 0), 0);
    uint64_t one = 1;
    CHECK_EQ(write(kept, &one, sizeof one), sizeof one);
    CHECK_EQ(epoll_wait(outer, &event, 1, 0), 1);
    CHECK_EQ(event.data.u64, 3);
    CHECK_EQ(epoll_wait(outer, &event, 1, 0), 0);
    CHECK_EQ(write(quit, &one, sizeof one), sizeof one);
    pthread_join(thread, NULL);

    char page[64];
    CHECK_EQ(read(nothing, page, sizeof page), -1);
    CHECK(inotify_add_watch(nothing, ".", IN_CREATE) > 0, "inotify");
    CHECK_EQ(write(null, page, sizeof page), sizeof page);
    CHECK_EQ(read(null, page, sizeof page), 0);
    CHECK_EQ(read(random, page, sizeof page), sizeof page);
    struct stat first, second;
    CHECK_EQ(fstat(STDIN_FILENO, &first), 0);
    CHECK_EQ(fstat(input, &second), 0);
    CHECK(first.st_dev == second.st_dev && first.st_ino == second.st_ino, "another standard input");
    return test_finish("events");
}

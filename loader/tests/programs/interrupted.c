// Calls that a handler ends, and calls that it does not, while the threads are stopped all the time:
// a stop must neither hide the interruption nor add one. Prints "interrupted ok".
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CHECK(c) do { if (!(c)) { printf("line %d: %s (%s)\n", __LINE__, #c, strerror(errno)); exit(1); } } while (0)

static volatile sig_atomic_t alarms;
static int ends[2];

static void on_alarm(int s) { (void)s; alarms++; }

// One alarm soon, and one much later that shows that the first was not noticed.
static void soon(int flags) {
    struct sigaction a = {.sa_handler = on_alarm, .sa_flags = flags};
    struct itimerval t = {{20, 0}, {0, 60000}};
    CHECK(sigaction(SIGALRM, &a, NULL) == 0);
    alarms = 0;
    CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
}
#define ENDED(call) CHECK((call) == -1 && errno == EINTR && alarms == 1)

int main(void) {
    char byte;
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < 6; i++) {
        struct timespec much = {15, 0}, left = {0, 0};
        soon(0);
        ENDED(pause());
        soon(0);
        ENDED(read(ends[0], &byte, 1));
        soon(SA_RESTART);
        ENDED(nanosleep(&much, &left));
        CHECK(left.tv_sec >= 1 && left.tv_sec < 15);
        soon(SA_RESTART);
        ENDED(poll(NULL, 0, 15000));
        soon(SA_RESTART);
        ENDED(clock_nanosleep(CLOCK_MONOTONIC, 0, &much, NULL) == EINTR ? (errno = EINTR, -1) : 0);
        // A call that is made again: only the byte ends it.
        soon(SA_RESTART);
        pid_t child = fork();
        if (child == 0) {
            usleep(150000);
            _exit(write(ends[1], "x", 1) != 1);
        }
        CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x' && alarms == 1);
    }
    puts("interrupted ok");
    return 0;
}

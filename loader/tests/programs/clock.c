// Reads clocks all the time; a handler that interrupts that takes so long that the program is saved
// in the middle of it. Prints "clock ok".
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define CHECK(c) do { if (!(c)) { printf("line %d: %s (%s)\n", __LINE__, #c, strerror(errno)); exit(1); } } while (0)

static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME};
enum { CLOCKS = sizeof clocks / sizeof *clocks };
static volatile sig_atomic_t handled;

static long long now(clockid_t clock) {
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void on_alarm(int s) {
    struct timespec t = {0, 60000000};
    (void)s;
    now(CLOCK_MONOTONIC);
    while (nanosleep(&t, &t) != 0) CHECK(errno == EINTR);
    handled++;
}

int main(void) {
    struct sigaction a = {.sa_handler = on_alarm};
    struct itimerval often = {{0, 65000}, {0, 5000}};
    long long last[CLOCKS] = {0};
    sigaction(SIGALRM, &a, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    while (handled < 25)
        for (int i = 0; i < CLOCKS; i++)
            for (int n = 0; n < 50; n++) {
                long long next = now(clocks[i]);
                CHECK(next >= last[i]);
                last[i] = next;
            }
    puts("clock ok");
    return 0;
}

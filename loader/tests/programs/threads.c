// Twelve threads that use what threads use: recursive mutex, condition variable, semaphore, short
// and long sleeps, clock polling, malloc, floating point, thread-local storage, new threads, and
// (with a second argument) a pipe and an interval timer. First argument: seconds to run.
// Made to be stopped at any moment. Prints "threads ok".
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CHECK(c) do { if (!(c)) { printf("line %d: %s (%s)\n", __LINE__, #c, strerror(errno)); fflush(stdout); _exit(1); } } while (0)

static atomic_int over;
static atomic_long work[16];
static atomic_long ticks;
static __thread long mine;
static pthread_mutex_t recursive, queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_cond = PTHREAD_COND_INITIALIZER;
static long queue, shared;
static sem_t ping, pong;
static int ends[2], with_pipe;

static double now(void) {
    struct timespec t;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return t.tv_sec + t.tv_nsec * 1e-9;
}
static void done(int k) {
    work[k]++;
    CHECK(++mine == work[k]);
}
static void *locks(void *a) {
    while (!over) {
        pthread_mutex_lock(&recursive);
        pthread_mutex_lock(&recursive);
        long was = shared;
        for (volatile int i = 0; i < 50; i++) ;
        shared = was + 1;
        CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
        done((long)a);
    }
    return a;
}
static void *produces(void *a) {
    while (!over) {
        pthread_mutex_lock(&queue_lock);
        if (queue < 100) queue++;
        pthread_cond_signal(&queue_cond);
        pthread_mutex_unlock(&queue_lock);
        if (work[(long)a] % 64 == 0) usleep(100);
        done((long)a);
    }
    pthread_mutex_lock(&queue_lock);
    queue = 1000000;
    pthread_cond_broadcast(&queue_cond);
    pthread_mutex_unlock(&queue_lock);
    return a;
}
static void *consumes(void *a) {
    while (!over) {
        pthread_mutex_lock(&queue_lock);
        while (queue == 0) pthread_cond_wait(&queue_cond, &queue_lock);
        queue--;
        CHECK(queue >= 0);
        pthread_mutex_unlock(&queue_lock);
        done((long)a);
    }
    return a;
}
static void *pings(void *a) {
    while (!over) {
        sem_post(&ping);
        while (sem_wait(&pong) != 0) CHECK(errno == EINTR);
        done((long)a);
    }
    sem_post(&ping);
    return a;
}
static void *pongs(void *a) {
    while (!over) {
        while (sem_wait(&ping) != 0) CHECK(errno == EINTR);
        sem_post(&pong);
        done((long)a);
    }
    sem_post(&pong);
    return a;
}
static void *sleeps(void *a) {
    while (!over) {
        struct timespec t = {0, 500000};
        double begun = now();
        int r = nanosleep(&t, NULL);
        CHECK(r == 0 || (with_pipe && errno == EINTR));
        CHECK(r != 0 || now() - begun >= 0.0005);
        done((long)a);
    }
    return a;
}
static void *polls_clock(void *a) {
    double last = now();
    while (!over) {
        for (int i = 0; i < 100; i++) {
            struct timeval t;
            gettimeofday(&t, NULL);
            double next = now();
            CHECK(next >= last);
            last = next;
        }
        done((long)a);
    }
    return a;
}
static void *allocates(void *a) {
    char *kept[64] = {0};
    unsigned seed = 1;
    while (!over) {
        int i = rand_r(&seed) % 64;
        size_t n = rand_r(&seed) % 300000 + 1;
        if (kept[i]) CHECK(kept[i][0] == (char)i);
        free(kept[i]);
        kept[i] = malloc(n);
        kept[i][0] = (char)i;
        kept[i][n - 1] = (char)i;
        done((long)a);
    }
    return a;
}
static void *computes(void *a) {
    while (!over) {
        double x = 1;
        for (int i = 0; i < 20000; i++) x = sqrt(x * x + 1.0);
        CHECK(fabs(x - sqrt(20001.0)) < 1e-6);
        done((long)a);
    }
    return a;
}
static void *short_lived(void *a) {
    CHECK((pid_t)syscall(SYS_gettid) > 0);
    mine = 5;
    return a;
}
static void *churns(void *a) {
    while (!over) {
        pthread_t t[3];
        void *r;
        for (int i = 0; i < 3; i++) CHECK(pthread_create(&t[i], NULL, short_lived, &t[i]) == 0);
        for (int i = 0; i < 3; i++) CHECK(pthread_join(t[i], &r) == 0 && r == &t[i]);
        done((long)a);
    }
    return a;
}
static void *reads(void *a) {
    while (!over) {
        struct pollfd p = {ends[0], POLLIN, 0};
        if (with_pipe) {
            char b;
            ssize_t n = read(ends[0], &b, 1);
            if (n != 1) { CHECK(n == -1 && errno == EINTR); continue; }
            CHECK(b == (char)work[(long)a]);
        } else {
            CHECK(poll(&p, 0, 1) == 0);
        }
        done((long)a);
    }
    return a;
}
static void on_alarm(int s) { (void)s; ticks++; }

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    with_pipe = argc > 2;
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attr);
    sem_init(&ping, 0, 0);
    sem_init(&pong, 0, 0);
    if (with_pipe) {
        CHECK(pipe(ends) == 0);
        struct sigaction act = {.sa_handler = on_alarm};
        sigaction(SIGALRM, &act, NULL);
        struct itimerval often = {{0, 700}, {0, 700}};
        setitimer(ITIMER_REAL, &often, NULL);
    }
    void *(*kinds[])(void *) = {locks, locks, produces, consumes, pings, pongs,
                                sleeps, polls_clock, allocates, computes, churns, reads};
    pthread_t t[12];
    for (long k = 0; k < 12; k++) CHECK(pthread_create(&t[k], NULL, kinds[k], (void *)k) == 0);
    // Counted by sleeps, not by the clock, which runs on while the program is on disk.
    char fed = 0;
    for (int i = 0; i < seconds * 1000; i++) {
        struct timespec ms = {0, 1000000};
        while (nanosleep(&ms, &ms) != 0) CHECK(errno == EINTR);
        if (with_pipe) { while (write(ends[1], &fed, 1) != 1) CHECK(errno == EINTR); fed++; }
    }
    over = 1;
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    if (with_pipe) CHECK(write(ends[1], &fed, 1) == 1);
    for (long k = 0; k < 12; k++) {
        void *r;
        CHECK(pthread_join(t[k], &r) == 0 && r == (void *)k);
        CHECK(work[k] > 0);
    }
    CHECK(shared == work[0] + work[1]);
    CHECK(!with_pipe || ticks > 0);
    puts("threads ok");
    return 0;
}

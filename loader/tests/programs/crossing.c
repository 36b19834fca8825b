// Behaves like the upper half's MPI library: wrappers that cross to functions of the lower half
// (those of `stasis-load`), on several threads, with signals arriving everywhere. Checks that both
// halves keep their thread-local state, that arguments arrive, that nested calls come back, and
// that a stop waits for the wrapper. Argument: milliseconds of sleep to run. Prints "crossing ok".
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CHECK(c) do { if (!(c)) { printf("line %d: %s (%s)\n", __LINE__, #c, strerror(errno)); fflush(stdout); _exit(1); } } while (0)
#define GATE 0x10000000000ul
#define SLOT(n) (((unsigned long *)(GATE + 384))[n])
#define STOP_SYSCALL 0x53544f50

typedef long twelve_t(long, long, long, long, long, long, long, long, long, long, long, long);

__asm__("cross:\n"
        "cmpl $0, %gs:40\n"
        "je 1f\n"
        "movq %gs:24, %r11\n"
        "addq $8, %gs:24\n"
        "popq (%r11)\n"
        "movq %gs:8, %r11\n"
        "wrfsbase %r11\n"
        "call *%rax\n"
        "movq %gs:16, %r11\n"
        "wrfsbase %r11\n"
        "movq %gs:24, %r11\n"
        "pushq -8(%r11)\n"
        "subq $8, %gs:24\n"
        "ret\n"
        "1: movabs $0x10000000030, %r11\n"
        "jmp *(%r11)\n"
        "low_twelve: movabs $0x10000000180+8*1000, %rax\n mov (%rax), %rax\n jmp cross\n"
        "low_wait: movabs $0x10000000180+8*1001, %rax\n mov (%rax), %rax\n jmp cross\n"
        "low_thread: movabs $0x10000000180+8*1003, %rax\n mov (%rax), %rax\n jmp cross\n"
        "low_call: movabs $0x10000000180+8*1002, %rax\n mov (%rax), %rax\n jmp cross\n");
twelve_t low_twelve;
long low_wait(void), low_thread(void);
long low_call(long (*)(long), long);

static __thread long mine, depth;
static atomic_int over, restarts, rebuilt;
static atomic_long alarms, stops;

static void enter(void) {
    __asm__ volatile("incl %%gs:32" ::: "memory");
    depth++;
}
static void leave(void) {
    unsigned wanted;
    depth--;
    __asm__ volatile("decl %%gs:32" ::: "memory");
    __asm__ volatile("movl %%gs:36, %0" : "=r"(wanted)::"memory");
    if (wanted && depth == 0) {
        long r;
        __asm__ volatile("syscall" : "=a"(r) : "a"(STOP_SYSCALL) : "rcx", "r11", "memory");
        CHECK(r == 0 || r == 1);
        stops++;
        restarts += r;
    }
}
static void on_alarm(int s) {
    (void)s;
    int saved = errno;
    long was = mine;
    errno = 99;
    mine = was;
    CHECK(errno == 99 && getppid() > 0);
    errno = saved;
    alarms++;
}
static long nested(long n) {
    // Called by the lower half: upper-half code again, through the test's own switch of FS.
    return n * 2;
}
static void one_round(void) {
    enter();
    mine++;
    long want = mine, r = low_twelve(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, want);
    CHECK(r == 1 + 4 + 9 + 16 + 25 + 36 + 49 + 64 + 81 + 100 + 121 + 12 * want && mine == want);
    CHECK(low_call(nested, want) == 2 * want + 1);
    leave();
}
static void *thread(void *a) {
    while (!over) one_round();
    return a;
}
static int drain(void) {
    CHECK(low_twelve(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) == 1);
    void *m = malloc(100000);
    CHECK(getpid() > 1);
    free(m);
    return 0;
}
static int rebuild(void) {
    rebuilt++;
    return drain();
}

int main(int argc, char **argv) {
    int ms = argc > 1 ? atoi(argv[1]) : 500;
    ((unsigned long *)(GATE + 56))[0] = (unsigned long)drain;
    ((unsigned long *)(GATE + 56))[1] = (unsigned long)rebuild;
    struct sigaction act = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &act, NULL);
    struct itimerval often = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &often, NULL);
    // The initial thread leaves the signals to the others, of which two are the lower half's.
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    for (int i = 0; i < 2; i++) {
        enter();
        CHECK(low_thread() == 6);
        leave();
    }
    pthread_t t[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&t[i], NULL, thread, NULL) == 0);
    for (int i = 0; i < ms; i++) {
        struct timespec left = {0, 1000000};
        while (nanosleep(&left, &left) != 0) CHECK(errno == EINTR);
        one_round();
        if (i == ms / 3) pthread_sigmask(SIG_BLOCK, &alarm, NULL);
        if (i % 16 == 0) {
            enter();
            CHECK(low_wait() == 5);
            leave();
        }
    }
    over = 1;
    for (int i = 0; i < 4; i++) CHECK(pthread_join(t[i], NULL) == 0);
    CHECK(alarms > 0);
    printf("crossing ok, rebuilt %d\n", rebuilt);
    return 0;
}

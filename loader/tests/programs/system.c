// Signals, fork, vfork, posix_spawn, exec, cancellation, memory calls, descriptors: what the
// loader emulates, checked against what Linux promises. Prints "system ok".
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(c) do { if (!(c)) { printf("line %d: %s (%s)\n", __LINE__, #c, strerror(errno)); exit(1); } } while (0)

extern char **environ;
static volatile sig_atomic_t hits, depth, deepest;
static sigjmp_buf jump;

static void on_signal(int s) {
    (void)s;
    depth++;
    if (depth > deepest) deepest = depth;
    hits++;
    getppid();
    depth--;
}
static void on_jump(int s) { (void)s; siglongjmp(jump, 1); }
static void on_info(int s, siginfo_t *i, void *c) {
    (void)c;
    if (s == SIGUSR2 && i->si_value.sival_int == 77 && i->si_pid == getpid()) hits++;
}
static void on_stack(int s) {
    (void)s;
    stack_t now;
    sigaltstack(NULL, &now);
    if (now.ss_flags & SS_ONSTACK) hits++;
}
static void handle(int s, void (*f)(int), int flags) {
    struct sigaction a = {.sa_handler = f, .sa_flags = flags};
    CHECK(sigaction(s, &a, NULL) == 0);
}

static void signals(void) {
    handle(SIGUSR1, on_signal, 0);
    struct sigaction old;
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == on_signal);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    CHECK(hits == 2);
    sigset_t all, was;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &was);
    kill(getpid(), SIGUSR1);
    getppid();
    CHECK(hits == 2);
    sigset_t pending;
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGUSR1));
    sigset_t wait = all;
    sigdelset(&wait, SIGUSR1);
    CHECK(sigsuspend(&wait) == -1 && errno == EINTR && hits == 3);
    kill(getpid(), SIGUSR1);
    int got = 0;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK(sigwait(&one, &got) == 0 && got == SIGUSR1);
    sigprocmask(SIG_SETMASK, &was, NULL);
    // EINTR without SA_RESTART, none with it.
    struct itimerval soon = {.it_value = {0, 20000}};
    handle(SIGALRM, on_signal, 0);
    int p[2];
    char b;
    CHECK(pipe(p) == 0);
    // Repeated, because on a busy machine the first may come before the call.
    soon.it_interval = soon.it_value;
    setitimer(ITIMER_REAL, &soon, NULL);
    CHECK(read(p[0], &b, 1) == -1 && errno == EINTR);
    soon.it_interval.tv_usec = 0;
    handle(SIGALRM, on_signal, SA_RESTART);
    pid_t child = fork();
    if (child == 0) { usleep(100000); _exit(write(p[1], "x", 1) != 1); }
    setitimer(ITIMER_REAL, &soon, NULL);
    CHECK(read(p[0], &b, 1) == 1 && b == 'x');
    CHECK(waitpid(child, NULL, 0) == child);
    // Leaving a blocking call by siglongjmp, many times.
    handle(SIGALRM, on_jump, 0);
    for (int i = 0; i < 20; i++) {
        soon.it_value.tv_usec = 1000;
        if (!sigsetjmp(jump, 1)) { setitimer(ITIMER_REAL, &soon, NULL); for (;;) read(p[0], &b, 1); }
    }
    // A storm of signals onto system calls.
    handle(SIGALRM, on_signal, SA_RESTART);
    struct itimerval storm = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &storm, NULL);
    int before = hits;
    for (int i = 0; i < 60000; i++) CHECK(getppid() > 0);
    for (int i = 0; i < 200; i++) { void *m = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); CHECK(m != MAP_FAILED); CHECK(munmap(m, 8192) == 0); }
    memset(&storm, 0, sizeof storm);
    setitimer(ITIMER_REAL, &storm, NULL);
    CHECK(hits > before && deepest == 1);
    struct sigaction info = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO | SA_RESETHAND};
    sigaction(SIGUSR2, &info, NULL);
    before = hits;
    CHECK(sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 77}) == 0 && hits == before + 1);
    CHECK(sigaction(SIGUSR2, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536}, now;
    CHECK(sigaltstack(&alternate, NULL) == 0 && sigaltstack(NULL, &now) == 0 && now.ss_sp == alternate.ss_sp);
    handle(SIGUSR2, on_stack, SA_ONSTACK);
    before = hits;
    raise(SIGUSR2);
    CHECK(hits == before + 1);
    alternate.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&alternate, NULL) == 0);
    close(p[0]);
    close(p[1]);
}

static int wait_for(pid_t p) {
    int s;
    CHECK(waitpid(p, &s, 0) == p);
    return WIFEXITED(s) ? WEXITSTATUS(s) : -WTERMSIG(s);
}
static void *nothing(void *a) { return a; }

static void processes(void) {
    pid_t p = fork();
    if (p == 0) {
        pthread_t t;
        CHECK(getpid() == (pid_t)syscall(SYS_gettid) && getppid() > 1);
        CHECK(pthread_create(&t, NULL, nothing, NULL) == 0 && pthread_join(t, NULL) == 0);
        _exit(7);
    }
    CHECK(p > 0 && wait_for(p) == 7);
    for (int i = 0; i < 20; i++) {
        p = vfork();
        if (p == 0) { execl("/bin/sh", "sh", "-c", "exit 5", (char *)0); _exit(99); }
        CHECK(p > 0 && wait_for(p) == 5);
    }
    p = vfork();
    if (p == 0) { execl("/nonexistent", "x", (char *)0); _exit(errno == ENOENT ? 8 : 9); }
    CHECK(wait_for(p) == 8);
    char *argv[] = {"sh", "-c", "echo spawned >&3", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 5, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 5, 3);
    posix_spawn_file_actions_addclose(&actions, 5);
    posix_spawnattr_t attr;
    sigset_t defaults;
    sigfillset(&defaults);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    CHECK(posix_spawn(&p, "/bin/sh", &actions, &attr, argv, environ) == 0 && wait_for(p) == 0);
    CHECK(posix_spawn(&p, "/nonexistent", NULL, NULL, argv, environ) == ENOENT);
    struct sigaction old;
    CHECK(sigaction(SIGUSR1, NULL, &old) == 0 && old.sa_handler == on_signal);
    CHECK(WEXITSTATUS(system("exit 6")) == 6);
    FILE *f = popen("echo 12", "r");
    int n = 0;
    CHECK(fscanf(f, "%d", &n) == 1 && n == 12 && pclose(f) == 0);
}

static int cleaned;
static void clean(void *a) { (void)a; cleaned++; }
static void *blocked(void *a) {
    pthread_cleanup_push(clean, NULL);
    int *p = a;
    char b;
    for (;;) read(p[0], &b, 1);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *ends(void *a) { pthread_exit(a); }
static pthread_mutex_t robust;
static void *dies(void *a) { pthread_mutex_lock(&robust); return a; }

static void threads(void) {
    int p[2];
    CHECK(pipe(p) == 0);
    pthread_t t;
    void *result;
    CHECK(pthread_create(&t, NULL, blocked, p) == 0);
    usleep(20000);
    CHECK(pthread_cancel(t) == 0 && pthread_join(t, &result) == 0 && result == PTHREAD_CANCELED && cleaned == 1);
    for (int i = 0; i < 300; i++) {
        pthread_t many[4];
        for (int k = 0; k < 4; k++) CHECK(pthread_create(&many[k], NULL, ends, &many[k]) == 0);
        for (int k = 0; k < 4; k++) CHECK(pthread_join(many[k], &result) == 0 && result == &many[k]);
    }
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &a);
    CHECK(pthread_create(&t, NULL, dies, NULL) == 0 && pthread_join(t, NULL) == 0);
    CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD);
    pthread_attr_t attr;
    void *base;
    size_t size;
    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0 && pthread_attr_getstack(&attr, &base, &size) == 0);
    CHECK((char *)&attr > (char *)base && (char *)&attr < (char *)base + size);
    close(p[0]);
    close(p[1]);
}

static void memory(void) {
    size_t n = 1 << 20;
    char *m = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(m != MAP_FAILED && (size_t)m < (16ul << 40));
    memset(m, 5, n);
    m = mremap(m, n, 8 * n, MREMAP_MAYMOVE);
    CHECK(m != MAP_FAILED && m[n - 1] == 5 && m[n] == 0 && (size_t)m < (16ul << 40));
    CHECK(mremap(m, 8 * n, n, 0) == m && munmap(m, n) == 0);
    char *again = mmap(m, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(again == m);
    CHECK(mmap(m, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED && errno == EEXIST);
    char *first = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 100; i++) {
        CHECK(munmap(first, 4096) == 0);
        CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == first);
    }
    char *low = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(low != MAP_FAILED && (size_t)low < (1ul << 31));
    char *end = sbrk(0);
    CHECK(sbrk(1 << 20) == end && (memset(end, 1, 1 << 20), sbrk(-(1 << 20))) != (void *)-1 && sbrk(0) == end);
    CHECK(munmap((void *)(1ul << 46), 4096) == -1 && errno == EINVAL);
    int id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
    if (id >= 0) {
        char *s = shmat(id, NULL, 0);
        shmctl(id, IPC_RMID, NULL);
        CHECK(s != (void *)-1 && (size_t)s < (16ul << 40));
        s[8191] = 1;
        CHECK(shmdt(s) == 0);
    }
    char deep[6 << 20];
    for (size_t i = 0; i < sizeof deep; i += 4096) ((volatile char *)deep)[i] = 1;
}

static void files(char *self) {
    char path[PATH_MAX], real[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(n > 0);
    path[n] = 0;
    CHECK(realpath(self, real) && strcmp(path, real) == 0);
    int a = open("/dev/null", O_RDONLY), b = dup(a), c = fcntl(a, F_DUPFD, 40), d = dup2(a, 50);
    CHECK(a >= 0 && b >= 0 && c >= 40 && d == 50);
    CHECK(close(b) == 0 && close(b) == -1 && errno == EBADF);
    CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0 && fcntl(50, F_GETFD) == -1);
    char name[16];
    CHECK(prctl(PR_GET_NAME, name) == 0 && strncmp(name, "system", 6) == 0);
    CHECK(prctl(59, 0, 0, 0, 0) == -1 && errno == EINVAL);
    struct timespec t1, t2;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &t1) == 0 && nanosleep(&(struct timespec){0, 2000000}, NULL) == 0);
    CHECK(clock_gettime(CLOCK_MONOTONIC, &t2) == 0 && (t2.tv_sec - t1.tv_sec) * 1000000000L + t2.tv_nsec - t1.tv_nsec >= 2000000);
    CHECK(time(NULL) > 1600000000 && getenv("LD_PRELOAD") == NULL);
}

// What is wrong with an address is the kernel's to say, also where the loader reads it.
#define FAULTS(...) CHECK(syscall(__VA_ARGS__) == -1 && errno == EFAULT)
static void wrong_addresses(void) {
    char *none = (char *)8, *code = (char *)clean, word[8] = {0};
    struct timespec short_time = {0, 1000};
    FAULTS(SYS_rt_sigaction, SIGUSR1, none, NULL, 8);
    FAULTS(SYS_rt_sigaction, SIGUSR1, NULL, code, 8);
    FAULTS(SYS_rt_sigprocmask, SIG_BLOCK, none, NULL, 8);
    FAULTS(SYS_rt_sigprocmask, SIG_BLOCK, NULL, code, 8);
    FAULTS(SYS_rt_sigsuspend, none, 8);
    FAULTS(SYS_rt_sigtimedwait, none, NULL, &short_time, 8);
    FAULTS(SYS_nanosleep, none, NULL);
    FAULTS(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, none, NULL);
    FAULTS(SYS_clock_gettime, CLOCK_MONOTONIC, code);
    FAULTS(SYS_ppoll, NULL, 0, none, NULL, 8);
    FAULTS(SYS_ppoll, NULL, 0, &short_time, none, 8);
    FAULTS(SYS_select, 0, NULL, NULL, NULL, none);
    FAULTS(SYS_pselect6, 0, NULL, NULL, NULL, &short_time, none);
    FAULTS(SYS_futex, word, 0, 0, none, NULL, 0);
    FAULTS(SYS_timer_create, CLOCK_MONOTONIC, none, word);
    FAULTS(SYS_timer_create, CLOCK_MONOTONIC, NULL, code);
    FAULTS(SYS_open, none, O_RDONLY);
    FAULTS(SYS_readlink, "/proc/self/exe", code, 100);
    FAULTS(SYS_execve, "/bin/true", none, environ);
    FAULTS(SYS_execve, none, environ, environ);
    FAULTS(SYS_get_robust_list, 0, code, word);
    FAULTS(SYS_arch_prctl, 0x1003, code);
    CHECK(syscall(SYS_futex, word + 1, 6, 0, NULL, NULL, 0) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_nanosleep, &(struct timespec){0, 1000000000}, NULL) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_timer_settime, 5, 0, NULL, NULL) == -1 && errno == EINVAL);
}

int main(int argc, char **argv) {
    if (argc > 1) { printf("%s again, %s\n", argv[0], argv[1]); return 0; }
    signals();
    processes();
    threads();
    memory();
    files(argv[0]);
    wrong_addresses();
    puts("system ok");
    fflush(stdout);
    execl(argv[0], "other-name", "executed", (char *)0);
    return 1;
}

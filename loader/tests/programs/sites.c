// Patched system calls: every register and the red zone are kept, whichever way a call is served; instructions at every
// alignment are patched while many threads run them; signals, jumps out of handlers, forks and changes of the code
// itself find the program's own state. `sites` prints whether code was patched; `sites ROUNDS` is for runs with stops.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMES 12 // more than the loader lets an instruction raise SIGSYS
#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)

// --- Registers -------------------------------------------------------------------------------------------------------

struct registers {
    unsigned long general[14]; // rbx rbp r12 r13 r14 r15 rdi rsi rdx r10 r8 r9, flags, result
    unsigned char vector[32][64];
    unsigned long mask[8];
    unsigned long red[16];
};

// call_site(struct registers *state, site): loads all registers, calls the site, stores them. Each site is a function
// that makes one system call and returns. rdi holds arguments, so the state's address is on the stack.
#define V0(n) "vmovdqu64 " #n "*64+112(%rax), %zmm" #n "\n"
#define V1(n) "vmovdqu64 %zmm" #n ", " #n "*64+112(%rax)\n"
#define Y0(n) "vmovdqu " #n "*64+112(%rax), %ymm" #n "\n"
#define Y1(n) "vmovdqu %ymm" #n ", " #n "*64+112(%rax)\n"
#define K0(n) "kmovq " #n "*8+2160(%rax), %k" #n "\n"
#define K1(n) "kmovq %k" #n ", " #n "*8+2160(%rax)\n"
#define ALL16(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11) M(12) M(13) M(14) M(15)
#define ALL32(M) \
    ALL16(M) M(16) M(17) M(18) M(19) M(20) M(21) M(22) M(23) M(24) M(25) M(26) M(27) M(28) M(29) M(30) M(31)
#define ALL8(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7)
#define CALLER(name, load, store) \
    void name(struct registers *state, void *site); \
    asm(".text\n" #name ":\n" \
        "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n" \
        "push %rdi\n push %rsi\n" \
        "mov %rdi, %rax\n" load \
        "mov 0(%rax), %rbx\n mov 8(%rax), %rbp\n mov 16(%rax), %r12\n mov 24(%rax), %r13\n" \
        "mov 32(%rax), %r14\n mov 40(%rax), %r15\n mov 48(%rax), %rdi\n mov 56(%rax), %rsi\n" \
        "mov 64(%rax), %rdx\n mov 72(%rax), %r10\n mov 80(%rax), %r8\n mov 88(%rax), %r9\n" \
        "push 96(%rax)\n popfq\n" \
        "call *(%rsp)\n" \
        "pushfq\n pop %rcx\n" \
        "mov %rax, %r11\n mov 8(%rsp), %rax\n mov %rcx, 96(%rax)\n mov %r11, 104(%rax)\n" store \
        "mov %rbx, 0(%rax)\n mov %rbp, 8(%rax)\n mov %r12, 16(%rax)\n mov %r13, 24(%rax)\n" \
        "mov %r14, 32(%rax)\n mov %r15, 40(%rax)\n mov %rdi, 48(%rax)\n mov %rsi, 56(%rax)\n" \
        "mov %rdx, 64(%rax)\n mov %r10, 72(%rax)\n mov %r8, 80(%rax)\n mov %r9, 88(%rax)\n" \
        "pop %rsi\n pop %rdi\n" \
        "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n cld\n ret\n")
CALLER(call_512, ALL32(V0) ALL8(K0), ALL32(V1) ALL8(K1));
CALLER(call_256, ALL16(Y0), ALL16(Y1));
_Static_assert(offsetof(struct registers, vector) == 112 && offsetof(struct registers, mask) == 2160, "offsets");

// Sites of both shapes. The red zone is filled before the call and compared after it; rax tells the difference.
#define RED_FILL \
    "movabs $0x5a5a5a5a5a5a5a5a, %r11\n mov %r11, -8(%rsp)\n mov %r11, -64(%rsp)\n mov %r11, -120(%rsp)\n" \
    "mov %r11, -128(%rsp)\n"
#define NUMBER_SITE(name, nr) \
    void name(void); \
    asm(".text\n.p2align 5\n" #name ":\n" RED_FILL "mov $" #nr ", %eax\n syscall\n jmp red_check\n")
#define PAD_SITE(name, nr) \
    void name(void); \
    asm(".text\n.p2align 5\n" #name ":\n" RED_FILL "mov $" #nr ", %eax\n nop\n syscall\n" \
        "jmp red_check\n.byte 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n.p2align 3\n")
asm(".text\nred_check:\n"
    "movabs $0x5a5a5a5a5a5a5a5a, %r11\n"
    "pushfq\n pop %rcx\n"
    "xor -64(%rsp), %r11\n jnz 1f\n"
    "movabs $0x5a5a5a5a5a5a5a5a, %r11\n xor -120(%rsp), %r11\n jnz 1f\n"
    "movabs $0x5a5a5a5a5a5a5a5a, %r11\n xor -128(%rsp), %r11\n jnz 1f\n"
    "push %rcx\n popfq\n ret\n"
    "1: mov $-12345, %rax\n ret\n");
NUMBER_SITE(number_pass, 110);  // getppid
NUMBER_SITE(number_light, 39);  // getpid
NUMBER_SITE(number_full, 61);   // wait4
NUMBER_SITE(number_trap, 14);   // rt_sigprocmask
PAD_SITE(pad_pass, 110);
PAD_SITE(pad_light, 39);
PAD_SITE(pad_full, 61);
PAD_SITE(pad_trap, 14);

static int patched(void *site) {
    unsigned char *code = site;
    for (int at = 0; at < 64; at++) {
        if (code[at] == 0xe9 || code[at] == 0xeb) return code[at] == 0xe9 || code[at + 1] < 0x80;
        if (code[at] == 0x0f && code[at + 1] == 0x05) return 0;
    }
    return 0;
}

static int with_512, with_256;
static int stopped; // the program is stopped now and then, which takes the patches back

static void keeps_registers(void *site, unsigned long a, unsigned long b, unsigned long c, unsigned long d, long want) {
    for (int n = 0; n < TIMES; n++) {
        struct registers state, before;
        for (size_t at = 0; at < sizeof state; at++) ((unsigned char *)&state)[at] = 37 * at + n + 1;
        unsigned long arguments[4] = {a, b, c, d};
        for (int at = 0; at < 4; at++) state.general[6 + at] = arguments[at];
        state.general[12] = 0x202 | (n & 1 ? 0x8d5 : 0) | (n & 2 ? 0x400 : 0); // also the direction flag
        before = state;
        if (with_512) call_512(&state, site);
        else if (with_256) call_256(&state, site);
        else return;
        if (state.general[13] != (unsigned long)want) {
            printf("result %ld, not %ld\n", (long)state.general[13], want);
            exit(1);
        }
        before.general[13] = state.general[13];
        for (int at = 0; at < 14; at++) {
            if (state.general[at] != before.general[at])
                printf("register %d: %lx, not %lx\n", at, state.general[at], before.general[at]);
            CHECK(state.general[at] == before.general[at]);
        }
        for (int at = 0; at < 32; at++) CHECK(!memcmp(state.vector[at], before.vector[at], with_512 ? 64 : 32));
        CHECK(!memcmp(state.mask, before.mask, sizeof state.mask));
    }
}

static void registers(void) {
    with_512 = __builtin_cpu_supports("avx512bw");
    with_256 = __builtin_cpu_supports("avx2");
    void *pass[] = {number_pass, pad_pass}, *light[] = {number_light, pad_light};
    void *full[] = {number_full, pad_full}, *trap[] = {number_trap, pad_trap};
    for (int shape = 0; shape < 2; shape++) {
        keeps_registers(pass[shape], 1, 2, 3, 4, getppid());
        keeps_registers(light[shape], 1, 2, 3, 4, getpid());
        keeps_registers(full[shape], 1, 0, 0, 0, -ECHILD);
        keeps_registers(trap[shape], 7, 0, 0, 8, 0);
        int same = patched(pass[shape]) == patched(light[shape]) && patched(pass[shape]) == patched(full[shape]);
        CHECK(stopped || same);
        CHECK(!patched(trap[shape]));
    }
}

// --- Cross-modifying code --------------------------------------------------------------------------------------------

// 256 functions at all alignments, in both shapes.
extern char many[], many_end[];
extern unsigned many_offsets[];
asm(".text\n.p2align 6\nmany:\n"
    ".set n, 0\n.rept 128\n"
    ".skip n % 9, 0x90\n"
    "1: mov $110, %eax\n syscall\n ret\n"
    ".pushsection .rodata\n .long 1b - many\n .popsection\n"
    ".skip n % 7, 0x90\n"
    "1: mov $110, %eax\n nop\n syscall\n cmp $-4095, %rax\n ret\n"
    ".p2align 3, 0x90\n .byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n"
    ".pushsection .rodata\n .long 1b - many\n .popsection\n"
    ".set n, n + 1\n.endr\nmany_end:\n"
    ".pushsection .rodata\n.p2align 2\nmany_offsets:\n.popsection\n");
#define MANY 256

static atomic_int wrong;
static pthread_barrier_t ready;

static void *run_many(void *rounds) {
    int parent = getppid();
    unsigned *offsets = (unsigned *)many_offsets - MANY;
    pthread_barrier_wait(&ready);
    for (int n = 0; n < *(int *)rounds; n++)
        for (int at = 0; at < MANY; at++) {
            int (*site)(void) = (void *)(many + offsets[at]);
            if (site() != parent) wrong++;
        }
    return 0;
}

static void threads(int rounds) {
    pthread_t thread[4];
    CHECK(!pthread_barrier_init(&ready, 0, 4));
    for (int n = 0; n < 4; n++) CHECK(!pthread_create(&thread[n], 0, run_many, &rounds));
    for (int n = 0; n < 4; n++) CHECK(!pthread_join(thread[n], 0));
    CHECK(!wrong);
}

// --- Signals ---------------------------------------------------------------------------------------------------------

static int pipe_ends[2];
static sigjmp_buf jump;
static volatile int handled, jumps;

static void on_alarm(int signal) {
    char byte = 'x';
    handled++;
    for (int n = 0; n < 3; n++) getppid(), getpid();
    if (jumps) siglongjmp(jump, 1);
    if (handled % 4 == 0) (void)!write(pipe_ends[1], &byte, 1);
}

static void every(long microseconds) {
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    CHECK(!setitimer(ITIMER_REAL, &timer, 0));
}

static void signals(void) {
    char byte;
    struct pollfd fd = {.events = POLLIN};
    CHECK(!pipe(pipe_ends));
    fd.fd = pipe_ends[0];
    for (int restart = 0; restart < 2; restart++)
        for (int on_stack = 0; on_stack < 2; on_stack++) {
            static char stack[65536];
            stack_t alternate = {stack, 0, sizeof stack};
            CHECK(!sigaltstack(&alternate, 0));
            struct sigaction action = {.sa_handler = on_alarm};
            action.sa_flags = (restart ? SA_RESTART : 0) | (on_stack ? SA_ONSTACK : 0);
            CHECK(!sigaction(SIGALRM, &action, 0));
            int interrupted = 0, bytes = 0;
            every(700);
            while (bytes < 10) {
                ssize_t got = read(pipe_ends[0], &byte, 1);
                if (got == 1) bytes++;
                else {
                    CHECK(got < 0 && errno == EINTR);
                    interrupted++;
                }
            }
            CHECK(restart ? !interrupted : interrupted > 0);
            int polls = 0;
            while (polls < 10) { // EINTR with any flags
                if (poll(&fd, 1, 100) < 0) {
                    CHECK(errno == EINTR);
                    polls++;
                } else if (read(pipe_ends[0], &byte, 1) < 0) CHECK(errno == EINTR);
            }
            jumps = 1;
            volatile int times = 0;
            sigsetjmp(jump, 1);
            if (times++ < 20)
                for (;;) {
                    (void)!read(pipe_ends[0], &byte, 1);
                    pwrite(-1, &byte, 1, 0);
                    getppid();
                }
            jumps = 0;
            every(0);
        }
    // A signal that arrives anywhere in a call that does not block finds the mask as it was.
    struct sigaction action = {.sa_handler = on_alarm};
    CHECK(!sigaction(SIGALRM, &action, 0));
    handled = 1;
    every(100);
    while (handled < 2000) {
        struct stat facts;
        sigset_t mask;
        CHECK(fstat(1, &facts) == 0 && close(-1) < 0 && errno == EBADF);
        CHECK(!sigprocmask(SIG_BLOCK, 0, &mask) && !sigismember(&mask, SIGALRM) && !sigismember(&mask, SIGUSR1));
        handled += handled % 4 == 3; // no more bytes
    }
    every(0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

// --- Processes -------------------------------------------------------------------------------------------------------

static void processes(void) {
    int status, own = getpid();
    for (int n = 0; n < 3; n++) {
        pid_t child = fork();
        if (!child) {
            for (int m = 0; m < TIMES; m++)
                if (getppid() != own || getpid() == own) _exit(1);
            keeps_registers(number_full, 1, 0, 0, 0, -ECHILD);
            _exit(7);
        }
        CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
        child = vfork();
        if (!child) {
            for (int m = 0; m < TIMES; m++)
                if (getppid() != own || getpid() == own || close(-1) == 0) _exit(1);
            _exit(8);
        }
        CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 8);
    }
}

// --- Code that changes -----------------------------------------------------------------------------------------------

static unsigned char code[] = {0xb8, 110, 0, 0, 0, 0x0f, 0x05, 0xc3}; // getppid

static void changing_code(void) {
    static int known; // an address with other code is patched after many more calls
    char name[] = "/tmp/sites-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && !unlink(name) && !ftruncate(file, 8192) && pwrite(file, code, 8, 0) == 8);
    CHECK(pwrite(file, code, 8, 4096) == 8);
    for (int n = 0; n < 3; n++) {
        unsigned char *map = mmap(0, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        CHECK(map != MAP_FAILED);
        int (*first)(void) = (void *)map, (*second)(void) = (void *)(map + 4096);
        for (int m = 0; m < TIMES; m++) CHECK(first() == getppid() && second() == getppid());
        int was = patched(number_pass);
        CHECK(stopped || known++ || (patched(map) == was && patched(map + 4096) == was));
        // The program sees its own code when it may change it.
        CHECK(!mprotect(map, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) && !memcmp(map, code, 8));
        map[1] = 39; // getpid
        for (int m = 0; m < TIMES; m++) CHECK(first() == getpid() && second() == getppid());
        CHECK(!mprotect(map, 4096, PROT_READ | PROT_EXEC));
        for (int m = 0; m < TIMES; m++) CHECK(first() == getpid() && second() == getppid());
        CHECK(!madvise(map, 8192, MADV_DONTNEED));
        for (int m = 0; m < TIMES; m++) CHECK(first() == getppid() && second() == getppid());
        void *place = mmap(0, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        unsigned char *moved = mremap(map, 8192, 8192, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        CHECK(moved == place && !memcmp(moved, code, 8) && !memcmp(moved + 4096, code, 8));
        first = (void *)moved;
        for (int m = 0; m < TIMES; m++) CHECK(first() == getppid());
        CHECK(!munmap(moved, 8192));
        // Other code at the same address.
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
        unsigned char *again = mmap(moved, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
        CHECK(again == moved);
        memcpy(again, code, 8);
        again[1] = 39;
        CHECK(!mprotect(again, 4096, PROT_READ | PROT_EXEC));
        for (int m = 0; m < TIMES; m++) CHECK(first() == getpid());
        CHECK(!munmap(again, 4096));
    }
    close(file);
}

// --- The C library ---------------------------------------------------------------------------------------------------

static char scratch[256];
static int data, sockets[2], queue;

// Each function of the C library, again and again: the calls that are patched answer as those that are not.
#define SAME(call) \
    do { \
        errno = 0; \
        long first = (long)(call); \
        int error = errno; \
        for (int n = 0; n < TIMES; n++) { \
            errno = 0; \
            long next = (long)(call); \
            if (next != first || errno != error) { \
                printf("%s: %ld (errno %d), then %ld (errno %d)\n", #call, first, error, next, errno); \
                exit(1); \
            } \
        } \
    } while (0)

static int opened(int fd) {
    CHECK(fd >= 0 && !close(fd));
    return fd;
}

static int listed(const char *path) {
    DIR *directory = opendir(path);
    CHECK(directory && readdir(directory) && !closedir(directory));
    return 1;
}

static void c_library(void) {
    char name[] = "/tmp/sites-XXXXXX", other[64], bytes[64];
    struct stat facts;
    struct statvfs space;
    struct utsname host;
    struct sysinfo memory;
    struct rusage usage;
    struct rlimit limit;
    struct timespec soon = {0, 1000}, now;
    struct timeval moment = {0, 1000};
    struct iovec vector = {bytes, 8};
    struct pollfd fd = {.fd = -1};
    struct epoll_event event;
    fd_set none;
    int two[2];
    socklen_t len = sizeof two;
    FD_ZERO(&none);
    data = mkstemp(name);
    CHECK(data >= 0);
    snprintf(other, sizeof other, "%s-other", name);
    CHECK(write(data, scratch, sizeof scratch) == sizeof scratch);
    CHECK(!socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets));
    queue = epoll_create1(0);
    SAME(getppid()); SAME(getpid()); SAME(getuid()); SAME(geteuid()); SAME(getgid()); SAME(getegid());
    SAME(getpgid(0)); SAME(getsid(0)); SAME(getpriority(PRIO_PROCESS, 0)); SAME(gettid());
    SAME(pread(data, bytes, 8, 8)); SAME(pread(-1, bytes, 8, 8)); SAME(pread(data, 0, 8, 8));
    SAME(pwrite(data, bytes, 8, 8)); SAME(pwrite(data, (void *)8, 8, 8));
    SAME((lseek(data, 0, SEEK_SET), read(data, bytes, 8))); SAME((lseek(data, 0, SEEK_SET), write(data, bytes, 8)));
    SAME((lseek(data, 0, SEEK_SET), readv(data, &vector, 1)));
    SAME((lseek(data, 0, SEEK_SET), writev(data, &vector, 1)));
    SAME(preadv(data, &vector, 1, 0)); SAME(pwritev(data, &vector, 1, 0));
    SAME(opened(open(name, O_RDONLY))); SAME(opened(open(name, O_RDWR | O_CREAT, 0600)));
    SAME(open("/no/such", O_RDONLY)); SAME(open((char *)8, O_RDONLY));
    SAME(stat(name, &facts)); SAME(lstat(name, &facts)); SAME(fstat(data, &facts)); SAME(stat("/no/such", &facts));
    SAME(access(name, R_OK)); SAME(access("/no/such", R_OK)); SAME(chmod(name, 0600)); SAME(fchmod(data, 0600));
    SAME(ftruncate(data, 200)); SAME(truncate(name, 200)); SAME(fsync(data)); SAME(fdatasync(data));
    SAME(fallocate(data, 0, 0, 100)); SAME(flock(data, LOCK_EX)); SAME(flock(data, LOCK_UN));
    SAME(link(name, other) + unlink(other)); SAME(symlink(name, other) + unlink(other));
    SAME(rename(name, other) + rename(other, name)); SAME(mkdir(other, 0700) + rmdir(other)); SAME(rmdir("/no/such"));
    SAME(readlink("/proc/self/exe", bytes, 4)); SAME(readlink("/no/such", bytes, 4)); SAME(umask(022));
    SAME(opened(dup(data))); SAME(opened(dup2(data, 100))); SAME(opened(fcntl(data, F_DUPFD, 50)));
    SAME(fcntl(data, F_GETFL)); SAME(fcntl(data, F_SETFL, O_RDWR)); SAME(close(-1));
    SAME(pipe(two) + close(two[0]) + close(two[1])); SAME(opened(epoll_create1(0)));
    SAME(send(sockets[0], bytes, 8, 0) + recv(sockets[1], bytes, 8, 0)); SAME(recv(sockets[1], bytes, 8, MSG_DONTWAIT));
    SAME(getsockopt(sockets[0], SOL_SOCKET, SO_TYPE, two, &len)); SAME(socketpair(AF_UNIX, 99, 0, two));
    SAME(mmap(0, 0, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    SAME(munmap(mmap(0, 65536, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 65536)); SAME(munmap((void *)1, 1));
    SAME(mprotect((void *)4096, 4096, 1)); SAME(madvise((void *)4096, 4096, MADV_NORMAL)); SAME(msync(0, 4096, 0));
    SAME(nanosleep(&soon, 0)); SAME(clock_nanosleep(CLOCK_MONOTONIC, 0, &soon, 0)); SAME(poll(&fd, 1, 0));
    SAME(poll(&fd, 1, 1)); SAME(ppoll(&fd, 1, &soon, 0)); SAME(select(0, &none, &none, &none, &moment));
    SAME(epoll_wait(queue, &event, 1, 0)); SAME(epoll_wait(queue, &event, 1, 1)); SAME(sched_yield());
    SAME(getrusage(99, &usage)); SAME(getrlimit(RLIMIT_NOFILE, &limit)); SAME(setrlimit(RLIMIT_NOFILE, &limit));
    SAME(uname(&host)); SAME(sysinfo(&memory)); SAME(statvfs("/", &space)); SAME(clock_getres(99, &now));
    SAME(sigaction(SIGUSR1, 0, 0)); SAME(raise(0)); SAME(kill(getpid(), 0)); SAME(alarm(0));
    SAME(listed("/proc/self/fdinfo")); SAME(chdir("/")); SAME(getcwd(bytes, sizeof bytes));
    SAME(sched_getaffinity(0, 1, 0)); SAME(syscall(SYS_getppid)); SAME(syscall(9999));
    SAME(syscall(SYS_futex, 0, 1, 1));
    SAME(fork() ? wait(0) > 0 : (_exit(0), 0));
    close(data), close(sockets[0]), close(sockets[1]), close(queue), unlink(name);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    stopped = argc > 1;
    setvbuf(stdout, 0, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    for (int n = 0; n < rounds; n++) {
        registers();
        threads(20);
        signals();
        processes();
        changing_code();
        c_library();
    }
    registers();
    printf("sites ok, %s\n", stopped ? "with stops" : patched(number_pass) ? "patched" : "as they were");
}

//#Cut: hold
//#Environment: STASIS_FOR_CPU=x86-64-v2
//#Compare: none
//#Flags: -pthread
//#Shows: a program that sees a lesser processor (launch --for-cpu), before and after a restart, in all threads
#include "../stasis_test.h"

#include <cpuid.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

static int at_load;
static sigjmp_buf back;
static volatile sig_atomic_t faults;
static void *volatile fault_at;

static unsigned bit(unsigned leaf, unsigned subleaf, int which, int n)
{
    unsigned registers[4] = {0};
    __get_cpuid_count(leaf, subleaf, &registers[0], &registers[1], &registers[2], &registers[3]);
    return registers[which] >> n & 1;
}

/* Asks as programs do: the compiler's way, and the instruction. */
static int sees_more(void)
{
    unsigned eax, ebx, ecx, edx;
    __cpuid(0, eax, ebx, ecx, edx);
    CHECK(eax >= 7 && ebx, "the vendor is hidden");
    __cpuid(1, eax, ebx, ecx, edx);
    CHECK(edx & bit_SSE2 && ecx & bit_SSE4_2 && ecx & bit_POPCNT, "features of the level are hidden: %x %x", ecx, edx);
    return __builtin_cpu_supports("avx") || __builtin_cpu_supports("avx2") || __builtin_cpu_supports("avx512f") ||
           ecx & (bit_AVX | bit_OSXSAVE | bit_XSAVE | bit_AES | bit_FMA) || bit(7, 0, 1, 5) || bit(7, 0, 1, 16) ||
           bit(7, 0, 2, 9) || bit(0x80000001, 0, 2, 5) || bit(0xd, 0, 0, 2);
}

__attribute__((constructor)) static void while_loading(void)
{
    __builtin_cpu_init();
    at_load = sees_more();
}

static void *in_a_thread(void *unused)
{
    sigset_t all;
    (void)unused;
    /* SIGSEGV answers the instruction, whatever the program blocks. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    return (void *)(intptr_t)sees_more();
}

static void handler(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    faults++;
    fault_at = info->si_addr;
    CHECK(!sees_more(), "in a handler");
    siglongjmp(back, 1);
}

/* The program's own faults stay its own. */
static void check_faults(int flags)
{
    struct sigaction mine = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags}, former;
    CHECK_EQ(sigaction(SIGSEGV, &mine, NULL), 0);
    CHECK(!sees_more(), "with a handler of its own");
    faults = 0;
    if (!sigsetjmp(back, 1))
        *(volatile int *)0x10 = 1;
    CHECK_EQ(faults, 1);
    CHECK(fault_at == (void *)0x10, "the fault is at %p", fault_at);
    CHECK_EQ(sigaction(SIGSEGV, NULL, &former), 0);
    CHECK(former.sa_handler == (flags & SA_RESETHAND ? SIG_DFL : (void (*)(int))handler), "another handler");
    CHECK(!sees_more(), "after a fault");
    mine.sa_handler = SIG_DFL;
    mine.sa_flags = 0;
    CHECK_EQ(sigaction(SIGSEGV, &mine, NULL), 0);
}

/* Without a handler, a fault ends a process, as a sent signal does. */
static void check_ends(int sent)
{
    int status;
    pid_t child = fork();
    if (!child) {
        if (sees_more())
            _exit(1);
        if (sent)
            raise(SIGSEGV);
        else
            *(volatile int *)0x10 = 1;
        _exit(2);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "a child ends with %x", status);
}

static void check(void)
{
    pthread_t thread;
    void *more;
    CHECK(!sees_more(), "in the initial thread");
    CHECK_EQ(pthread_create(&thread, NULL, in_a_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, &more), 0);
    CHECK(!more, "in another thread");
    check_faults(0);
    check_faults(SA_RESETHAND);
    check_ends(0);
    check_ends(1);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK(!at_load, "before main");
    check();
    cut();
    check();
    return test_finish("lesser_processor");
}

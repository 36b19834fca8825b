// Two threads. The initial one holds AVX-512 registers, and its signal handler holds others. The second one creates the
// file that is named, once the handler runs, and lets the handler return when the file is gone.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int in_handler, go_on;
static struct held {
    uint64_t low[8], high[8], mask;
} given[2], found[2];

// Holds the registers in `given[which]` while a signal arrives, or until `go_on`, and stores them into `found[which]`.
// Nothing is in use on the stack above the signal's frame: the registers of another layout can need more room.
static void hold(int which, int signal)
{
    __asm__ volatile("sub $1024, %%rsp\n"
                     "vmovdqu64 (%[given]), %%zmm3\n"
                     "vmovdqu64 64(%[given]), %%zmm29\n"
                     "kmovq 128(%[given]), %%k5\n"
                     "test %%edx, %%edx\n"
                     "jz 1f\n"
                     "mov %[tgkill], %%eax\n"
                     "syscall\n"
                     "jmp 2f\n"
                     "1: movl $1, %[in_handler]\n"
                     "pause\n"
                     "cmpl $0, %[go_on]\n"
                     "je 1b\n"
                     "2: vmovdqu64 %%zmm3, (%[found])\n"
                     "vmovdqu64 %%zmm29, 64(%[found])\n"
                     "kmovq %%k5, 128(%[found])\n"
                     "add $1024, %%rsp\n"
                     : [in_handler] "+m"(in_handler)
                     : [given] "r"(&given[which]), [found] "r"(&found[which]), [go_on] "m"(go_on),
                       [tgkill] "i"(SYS_tgkill), "D"(getpid()), "S"(gettid()), "d"(signal)
                     : "rax", "rcx", "r11", "memory");
}

static void handler(int signal)
{
    (void)signal;
    hold(1, 0);
}

static void *second(void *name)
{
    while (!in_handler)
        sched_yield();
    // The file is there without having been open: it is gone when the process is restored.
    mknod(name, S_IFREG | 0600, 0);
    while (access(name, F_OK) == 0)
        usleep(1000);
    go_on = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    uint8_t *bytes = (uint8_t *)given;
    for (size_t at = 0; at < sizeof given; at++)
        bytes[at] = at * 31 + 7;
    signal(SIGUSR1, handler);
    pthread_create(&thread, NULL, second, argv[1]);
    hold(0, SIGUSR1);
    pthread_join(thread, NULL);
    if (memcmp(given, found, sizeof given) != 0)
        return printf("registers differ\n"), 1;
    puts("registers ok");
    return 0;
}

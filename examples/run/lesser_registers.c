//#Cut: hold
//#Modes: restart, migrate
//#Environment: STASIS_FOR_CPU=x86-64-v3
//#Compare: none
//#Flags: -pthread
//#Shows: a thread that computes in AVX registers under --for-cpu: they are kept, and the saved state has no larger ones
#include "../stasis_test.h"

#include <cpuid.h>
#include <pthread.h>

enum { BELOW = 1 << 14, RED_ZONE = 128 };

static volatile int started, go_on;
static unsigned char found[BELOW];
static unsigned char kept[32];

/* Holds a register until `go_on`, without a call. A thread that was stopped here has left the kernel's frame below its
 * stack pointer. */
static void *hold(void *unused)
{
    unsigned char filled[32];
    (void)unused;
    test_fill(filled, sizeof filled, 7);
    memset((unsigned char *)__builtin_frame_address(0) - BELOW, 0, BELOW - 512);
    __asm__ volatile("vmovdqu %[from], %%ymm9\n"
                     "movl $1, %[started]\n"
                     "1: pause\n"
                     "cmpl $0, %[go_on]\n"
                     "je 1b\n"
                     "vmovdqu %%ymm9, %[to]\n"
                     "lea -%c[below](%%rsp), %%rsi\n"
                     "lea %[found], %%rdi\n"
                     "mov %[count], %%ecx\n"
                     "rep movsb\n"
                     : [to] "=m"(kept), [started] "=m"(started), [found] "=m"(found)
                     : [from] "m"(filled), [go_on] "m"(go_on), [below] "i"(BELOW), [count] "i"(BELOW - RED_ZONE)
                     : "rsi", "rdi", "rcx", "xmm9", "memory");
    return NULL;
}

/* The state of registers in a frame: a magic number, bytes, components, bytes of these. In a job that goes on after the
 * checkpoint a signal to stop may come too late, and leave a frame with all registers. */
static void check_frame(void)
{
    const uint32_t magic = 0x46505853;
    int frames = 0;
    for (size_t at = 0; at + 24 <= sizeof found; at += 4) {
        uint32_t words[5];
        memcpy(words, found + at, sizeof words);
        if (words[0] != magic)
            continue;
        frames++;
        CHECK_EQ(words[1], 512 + 64 + 256 + 4);
        CHECK_EQ(words[2], 7);
        CHECK_EQ(words[4], 512 + 64 + 256);
    }
    CHECK(frames > 0, "the thread was not stopped");
}

int main(int argc, char **argv)
{
    pthread_t thread;
    test_start(&argc, &argv);
    if (__builtin_cpu_supports("avx2")) {
        CHECK(!__builtin_cpu_supports("avx512f"), "more than the level");
        CHECK_EQ(pthread_create(&thread, NULL, hold, NULL), 0);
        while (!started)
            sched_yield();
        cut();
        go_on = 1;
        CHECK_EQ(pthread_join(thread, NULL), 0);
        test_verify(kept, sizeof kept, 7);
        check_frame();
    } else {
        cut();
    }
    return test_finish("lesser_registers");
}

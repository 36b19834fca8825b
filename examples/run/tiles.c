//#Cut: hold
//#Compare: none
//#Flags: -pthread
//#Shows: the tile registers of AMX, which a program asks the kernel for: a thread computes in them, before and after a restart
#include "../stasis_test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

enum { REQUEST = 0x1023, TILES = 18, ROWS = 16, BYTES = 64 };

/* The operand of LDTILECFG: palette 1, and tile 3 with all rows. */
static struct {
    uint8_t palette, start, zero[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} config = {.palette = 1, .bytes[3] = BYTES, .rows[3] = ROWS};

static volatile int started, go_on;
static uint8_t given[ROWS * BYTES], found[ROWS * BYTES];

/* Holds a tile until `go_on`. */
static void *hold(void *unused)
{
    (void)unused;
    __asm__ volatile("ldtilecfg %[config]\n"
                     "tileloadd (%[given],%[stride]), %%tmm3\n"
                     "movl $1, %[started]\n"
                     "1: pause\n"
                     "cmpl $0, %[go_on]\n"
                     "je 1b\n"
                     "tilestored %%tmm3, (%[found],%[stride])\n"
                     "tilerelease\n"
                     : [started] "=m"(started)
                     : [config] "m"(config), [given] "r"(given), [found] "r"(found), [stride] "r"((long)BYTES),
                       [go_on] "m"(go_on)
                     : "memory");
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    test_start(&argc, &argv);
    /* Kernels and processors without AMX refuse. */
    int allowed = syscall(SYS_arch_prctl, REQUEST, TILES) == 0;
    if (allowed) {
        test_fill(given, sizeof given, 5);
        CHECK_EQ(pthread_create(&thread, NULL, hold, NULL), 0);
        while (!started)
            sched_yield();
        cut();
        go_on = 1;
        CHECK_EQ(pthread_join(thread, NULL), 0);
        test_verify(found, sizeof found, 5);
    } else {
        cut();
    }
    return test_finish("tiles");
}

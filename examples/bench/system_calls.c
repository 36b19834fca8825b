/* What system calls of a program cost. Prints the fastest and the median window, in nanoseconds for each call. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WINDOWS = 200, BLOCK = 4096 };

static char block[BLOCK];
static const char *path;
static int file;

static void parent(void)
{
    getppid();
}

static void read_block(void)
{
    if (pread(file, block, BLOCK, 0) != BLOCK)
        abort();
}

static void write_block(void)
{
    if (pwrite(file, block, BLOCK, 0) != BLOCK)
        abort();
}

/* The number is loaded by another instruction than in most functions of the C library. */
static void read_nothing(void)
{
    if (read(file, block, 0) != 0)
        abort();
}

static void open_and_close(void)
{
    if (close(open(path, O_RDONLY)) != 0)
        abort();
}

static void facts(void)
{
    struct stat found;
    if (stat(path, &found) != 0)
        abort();
}

static void map_and_unmap(void)
{
    void *at = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || munmap(at, 65536) != 0)
        abort();
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, void (*call)(void), int calls)
{
    static double windows[WINDOWS];
    for (int window = 0; window < WINDOWS; window++) {
        const double begun = now();
        for (int i = 0; i < calls; i++)
            call();
        windows[window] = (now() - begun) / calls;
    }
    qsort(windows, WINDOWS, sizeof windows[0], ascending);
    printf("%s %.1f %.1f\n", name, windows[0], windows[WINDOWS / 2]);
}

int main(int argc, char **argv)
{
    path = argc > 1 ? argv[1] : "system-calls.tmp";
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, block, BLOCK) != BLOCK)
        abort();
    measure("getppid", parent, 1000);
    measure("pread_4k", read_block, 500);
    measure("pwrite_4k", write_block, 500);
    measure("read_0", read_nothing, 500);
    measure("open_close", open_and_close, 200);
    measure("stat", facts, 300);
    measure("mmap_munmap", map_and_unmap, 100);
    unlink(path);
    return 0;
}

/* Moves memory whose parts were mapped one after the other, again and again, while checkpoints are taken. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sys/mman.h>

#include "phases.h"

enum { PAGE = 4096, PAGES = 16, SIZE = PAGES * PAGE, ACCESS = PROT_READ | PROT_WRITE };

static char *fresh(void *at, int pages)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at != NULL ? MAP_FIXED : 0);
    char *memory = mmap(at, (size_t)pages * PAGE, ACCESS, flags, -1, 0);
    check(memory != MAP_FAILED, "mmap");
    return memory;
}

static void fill(char *memory, int from, int to, int letter)
{
    for (int page = from; page < to; page++)
        memset(memory + page * PAGE, letter + page, PAGE);
}

static void expect(const char *memory, int from, int to, int letter, const char *what)
{
    for (int at = from * PAGE; at < to * PAGE; at++)
        if (memory[at] != (char)(letter + at / PAGE)) {
            fprintf(stderr, "FAILED: %s: byte %d is %d\n", what, at, memory[at]);
            exit(3);
        }
}

/* Memory of which a part was replaced since the last checkpoint goes to another place, grows or shrinks. */
static char *remapped(char *memory, int way)
{
    char *to = fresh(NULL, PAGES), *now = NULL;
    fresh(memory + 4 * PAGE, 4);
    fill(memory, 4, 8, 1);
    int fixed = MREMAP_MAYMOVE | MREMAP_FIXED;
    switch (way) {
    case 0:
        now = mremap(memory, SIZE, SIZE, fixed, to);
        check(now == to, "mremap to a place");
        break;
    case 1:
        now = mremap(memory, SIZE, SIZE + 2 * PAGE, MREMAP_MAYMOVE);
        check(now != MAP_FAILED, "mremap to more");
        check(now[SIZE] == 0 && now[SIZE + 2 * PAGE - 1] == 0, "the new pages");
        break;
    case 2:
        munmap(memory + 12 * PAGE, 4 * PAGE);
        now = mremap(memory, 12 * PAGE, SIZE, 0);
        check(now == memory, "mremap to more in its place");
        check(now[12 * PAGE] == 0, "the new pages");
        fill(now, 12, PAGES, 1);
        break;
    default:
        now = mremap(memory, SIZE, 12 * PAGE, fixed, to);
        check(now == to, "mremap to less");
        check(msync(memory + 12 * PAGE, PAGE, MS_ASYNC) != 0 && errno == ENOMEM, "the rest");
        check(now[12 * PAGE] == 0, "what was there");
        fill(now, 12, PAGES, 1);
    }
    expect(now, 0, PAGES, 1, "remapped");
    return now;
}

enum { ROUNDS = 400 };

int main(int argc, char **argv)
{
    static char *all[ROUNDS];
    struct timespec pause = {0, 5000000};
    MPI_Init(&argc, &argv);
    char *still = fresh(NULL, PAGES);
    fill(still, 0, PAGES, 2);
    for (int i = 0; i < ROUNDS; i++) {
        all[i] = fresh(NULL, PAGES);
        fill(all[i], 0, PAGES, 1);
    }
    phase(1);
    close(open("at.2", O_CREAT | O_WRONLY, 0644));
    for (int i = 0; i < ROUNDS; i++) {
        all[i] = remapped(all[i], i % 4);
        nanosleep(&pause, NULL);
    }
    /* What the kernel refuses natively, it refuses. */
    check(mprotect(still + PAGE, PAGE, PROT_READ) == 0, "mprotect");
    check(mremap(still, SIZE, 2 * SIZE, MREMAP_MAYMOVE) == MAP_FAILED && errno == EFAULT, "two kinds of memory");
    phase(3);
    expect(still, 0, PAGES, 2, "the other memory");
    for (int i = 0; i < ROUNDS; i++)
        expect(all[i], 0, PAGES, 1, "the memory");
    printf("all is there\n");
    MPI_Finalize();
    return 0;
}

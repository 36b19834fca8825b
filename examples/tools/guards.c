/* Guard pages (MADV_GUARD_INSTALL) that come and go between checkpoints. */
#define _GNU_SOURCE
#include <mpi.h>

#include "../guard_page.h"
#include "phases.h"

enum { PAGES = 256 };

static char *memory;

static void advise(int first, int pages, int advice)
{
    check(madvise(memory + first * PAGE, (size_t)pages * PAGE, advice) == 0, "madvise");
}

/* Guards are the pages of both ranges. A page of the last range was written after a guard had been there. */
static void expect(int a, int b, int c, int d, int e, int f)
{
    for (int page = 0; page < PAGES; page++) {
        int guard = (a <= page && page < b) || (c <= page && page < d), rewritten = e <= page && page < f;
        check(is_guard(memory + page * PAGE) == guard, "guards");
        if (!guard)
            check(memory[page * PAGE + 5] == (char)(page + rewritten), "content");
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    signal(SIGSEGV, faults);
    memory = mmap(NULL, PAGES * PAGE, ACCESS, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "mmap");
    for (int page = 0; page < PAGES; page++)
        memset(memory + page * PAGE, page, PAGE);
    if (madvise(memory + 10 * PAGE, 10 * PAGE, INSTALL) != 0) {
        printf("no guard pages\n");
        MPI_Finalize();
        return 77;
    }
    phase(1);
    expect(10, 20, 0, 0, 0, 0);
    advise(10, 5, REMOVE);
    for (int page = 10; page < 15; page++)
        memset(memory + page * PAGE, page + 1, PAGE);
    advise(100, 3, INSTALL);
    phase(2);
    expect(15, 20, 100, 103, 10, 15);
    phase(3);
    expect(15, 20, 100, 103, 10, 15);
    printf("all is there\n");
    MPI_Finalize();
    return 0;
}

//#Ranks: 2
//#Shows: heap, brk, mmap, mremap, shared and read-only mappings, stack and thread-local data after the cut
//#Cut: hold
//#Matrix: full
#include "../stasis_test.h"

#include <sys/mman.h>

enum { MB = 1 << 20 };
#define LOW 0x200000000
static __thread int local = 7;
static const char text[] = "read only";

static int deep(int level, char *above)
{
    char here[1000];
    test_fill(here, sizeof here, (uint32_t)level);
    if (level == 0)
        cut();
    else
        deep(level - 1, here);
    test_verify(here, sizeof here, (uint32_t)level);
    return above != NULL;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    char *small[100], *grown = malloc(1000), *shared, *moved, *readonly, *hole, *asked;
    for (int i = 0; i < 100; i++) {
        small[i] = malloc(37 * i + 1);
        test_fill(small[i], 37 * i + 1, (uint32_t)i);
    }
    test_fill(grown, 1000, 50);
    grown = realloc(grown, 24 * MB);
    test_verify(grown, 1000, 50);
    test_fill(grown, 24 * MB, 51);
    shared = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "mmap");
    test_fill(shared, MB, 52);
    moved = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    test_fill(moved, MB, 53);
    moved = mremap(moved, MB, 8 * MB, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED, "mremap");
    readonly = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    test_fill(readonly, MB, 54);
    CHECK_EQ(mprotect(readonly, MB, PROT_READ), 0);
    hole = mmap(NULL, 3 * MB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_EQ(munmap(hole + MB, MB), 0);
    /* The driver of a GPU takes addresses for which it only asks. */
    asked = mmap((void *)LOW, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(asked == (char *)LOW, "mmap gives %p", (void *)asked);
    test_fill(asked, MB, 55);
    local = 11 + test_rank;

    deep(20, grown);

    for (int i = 0; i < 100; i++) {
        test_verify(small[i], 37 * i + 1, (uint32_t)i);
        free(small[i]);
    }
    test_verify(grown, 24 * MB, 51);
    grown = realloc(grown, 40 * MB);
    test_verify(grown, 24 * MB, 51);
    test_verify(shared, MB, 52);
    test_verify(asked, MB, 55);
    test_verify(moved, MB, 53);
    test_verify(readonly, MB, 54);
    CHECK_EQ(mprotect(readonly, MB, PROT_READ | PROT_WRITE), 0);
    readonly[5] = 1;
    CHECK_EQ(local, 11 + test_rank);
    CHECK_EQ(strcmp(text, "read only"), 0);
    CHECK_EQ(mprotect(hole, MB, PROT_READ | PROT_WRITE), 0);
    hole[5] = 1;
    return test_finish("memory");
}

//#Ranks: 2
//#Shows: one object mapped at several places of a process, with different rights, and anonymous shared memory in two places
//#Cut: hold
//#Variant: memfd; matrix=full
//#Variant: anonymous
//#Variant: open; matrix=full
#include "../stasis_test.h"

#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 64 };
#define LENGTH ((size_t)PAGES * PAGE)

static char *map(int fd, int prot, size_t length, size_t offset)
{
    char *at = mmap(NULL, length, prot, MAP_SHARED, fd, (off_t)offset);
    CHECK(at != MAP_FAILED, "mmap");
    return at;
}

int main(int argc, char **argv)
{
    int anonymous = argc > 1 && !strcmp(argv[1], "anonymous");
    int stays_open = argc > 1 && !strcmp(argv[1], "open");
    char *whole, *again, *window = NULL;
    int fd = -1;

    test_start(&argc, &argv);
    if (anonymous) {
        whole = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(whole != MAP_FAILED, "mmap");
        /* An old length of 0 maps shared memory once more. */
        again = mremap(whole, 0, LENGTH, MREMAP_MAYMOVE);
        CHECK(again != MAP_FAILED, "mremap");
    } else {
        fd = memfd_create("aliased", 0);
        CHECK(fd >= 0, "memfd_create");
        CHECK_EQ(ftruncate(fd, (off_t)LENGTH), 0);
        whole = map(fd, PROT_READ | PROT_WRITE, LENGTH, 0);
        again = map(fd, PROT_READ, LENGTH, 0);
        window = map(fd, PROT_READ | PROT_WRITE, 4 * PAGE, 7 * PAGE);
        if (!stays_open)
            close(fd);
    }
    test_fill(whole, LENGTH, 1);
    CHECK_EQ(mprotect(whole + 3 * PAGE, PAGE, PROT_READ), 0);
    CHECK_EQ(mprotect(whole + 20 * PAGE, PAGE, PROT_NONE), 0);

    cut();

    test_verify(again, LENGTH, 1);
    CHECK_EQ(mprotect(whole + 20 * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
    test_verify(whole, LENGTH, 1);
    CHECK_EQ(mprotect(whole + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
    test_fill(whole, LENGTH, 2);
    test_verify(again, LENGTH, 2);
    if (window) {
        test_fill(window, 4 * PAGE, 3);
        CHECK_EQ(memcmp(again + 7 * PAGE, window, 4 * PAGE), 0);
    }
    if (stays_open) {
        char *once_more = map(fd, PROT_READ, LENGTH, 0);
        CHECK_EQ(memcmp(once_more, whole, LENGTH), 0);
    }
    return test_finish("aliased");
}

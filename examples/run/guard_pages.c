//#Ranks: 2
//#Cut: hold
//#Flags: -pthread
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: guard pages (MADV_GUARD_INSTALL), in memory, in a thread's stack and in a mapped file: an access raises SIGSEGV after the cut, too, what is beside them is there, and they can be removed
#include "../stasis_test.h"

#include "../guard_page.h"

#include <errno.h>
#include <pthread.h>

enum { PAGES = 64 };

/* Every fifth page of the first half, and the last page. */
static int shall_be(int page) { return (page < PAGES / 2 && page % 5 == 1) || page == PAGES - 1; }

static void verify(char *memory, const char *what, uint32_t seed)
{
    for (int page = 0; page < PAGES; page++) {
        CHECK(is_guard(memory + page * PAGE) == shall_be(page), "page %d of %s", page, what);
        if (!shall_be(page))
            test_verify(memory + page * PAGE, PAGE, seed + (uint32_t)page);
    }
}

static int install(char *memory)
{
    for (int page = 0; page < PAGES; page++)
        if (shall_be(page) && madvise(memory + page * PAGE, PAGE, INSTALL) != 0)
            return -1;
    return 0;
}

static char *memory_of(int flags, int fd)
{
    char *memory = mmap(NULL, PAGES * PAGE, ACCESS, flags, fd, 0);
    CHECK(memory != MAP_FAILED, "mmap: %s", strerror(errno));
    return memory;
}

static void fill(char *memory, uint32_t seed)
{
    for (int page = 0; page < PAGES; page++)
        test_fill(memory + page * PAGE, PAGE, seed + (uint32_t)page);
}

static pthread_barrier_t meet;

static void *lives(void *stack)
{
    char here[100];
    test_fill(here, sizeof here, 7);
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    test_verify(here, sizeof here, 7);
    CHECK(is_guard(stack), "the stack has no guard");
    return stack;
}

int main(int argc, char **argv)
{
    char *memory, *mapped, *stack, name[32];
    pthread_attr_t attributes;
    pthread_t thread;
    int of_files;
    test_start(&argc, &argv);
    struct sigaction action = {.sa_handler = faults};
    sigaction(SIGSEGV, &action, NULL);

    memory = memory_of(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    fill(memory, 100);
    if (install(memory) != 0) {
        CHECK_EQ(errno, EINVAL); /* before Linux 6.13 */
        cut();
        return test_finish("guard_pages");
    }
    char *empty = memory_of(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    CHECK_EQ(install(empty), 0);
    CHECK_EQ(mprotect(empty, PAGES * PAGE, PROT_READ), 0);
    snprintf(name, sizeof name, "mapped.%d", test_rank);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK_EQ(ftruncate(fd, PAGES * PAGE), 0);
    mapped = memory_of(MAP_SHARED, fd);
    fill(mapped, 200);
    CHECK_EQ(munmap(mapped, PAGES * PAGE), 0);
    mapped = memory_of(MAP_PRIVATE, fd);
    close(fd);
    of_files = install(mapped) == 0; /* Linux 6.15 */

    /* As the C library does from glibc 2.42 on. */
    stack = memory_of(MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1);
    CHECK_EQ(madvise(stack, 4 * PAGE, INSTALL), 0);
    pthread_attr_init(&attributes);
    CHECK_EQ(pthread_attr_setstack(&attributes, stack, PAGES * PAGE), 0);
    pthread_barrier_init(&meet, NULL, 2);
    CHECK_EQ(pthread_create(&thread, &attributes, lives, stack), 0);
    pthread_barrier_wait(&meet);

    cut();

    pthread_barrier_wait(&meet);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(is_guard(stack + 3 * PAGE) && !is_guard(stack + 4 * PAGE), "another guard of the stack");
    verify(memory, "the memory", 100);
    for (int page = 0; page < PAGES; page++)
        CHECK(is_guard(empty + page * PAGE) == shall_be(page), "page %d of what is empty", page);
    if (of_files)
        verify(mapped, "the file", 200);
    CHECK_EQ(madvise(memory, PAGES * PAGE, REMOVE), 0);
    CHECK(!is_guard(memory + PAGE) && memory[PAGE] == 0, "it is no empty page");
    test_verify(memory, PAGE, 100);
    return test_finish("guard_pages");
}

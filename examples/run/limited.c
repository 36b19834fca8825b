//#Cut: hold
//#Modes: plain, continue, restart, migrate, cycle, stop
//#Shows: a program that has limited its address space: at a restart MPI has what it needs for the program's objects, and then the program has the limit and the room that it had
#include "../stasis_test.h"

#include <sys/mman.h>
#include <sys/resource.h>

enum { WINDOWS = 200, ROOM = 200 << 20 };

static int here[WINDOWS];

/* Bytes of address space that this process uses. */
static rlim_t used(void)
{
    rlim_t kilobytes = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL, "/proc/self/status");
    while (fgets(line, sizeof line, status))
        sscanf(line, "VmSize: %lu", &kilobytes);
    fclose(status);
    return kilobytes << 10;
}

/* Sets the limit to what the process uses now and ROOM more. */
static void set_limit(struct rlimit *limit)
{
    limit->rlim_cur = used() + ROOM;
    CHECK_EQ(setrlimit(RLIMIT_AS, limit), 0);
}

/* Checks that the limit is this one, and that there is room below it. */
static void check_limit(const struct rlimit *limit)
{
    struct rlimit now;
    void *fits;
    CHECK_EQ(getrlimit(RLIMIT_AS, &now), 0);
    CHECK(now.rlim_cur == limit->rlim_cur && now.rlim_max == limit->rlim_max, "%lu, %lu", now.rlim_cur,
          now.rlim_max);
    fits = mmap(NULL, ROOM / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(fits != MAP_FAILED, "%d bytes", ROOM / 2);
    CHECK_EQ(munmap(fits, ROOM / 2), 0);
}

static void check_no_more_room(void)
{
    void *too_large = mmap(NULL, 2 * ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(too_large == MAP_FAILED, "%d bytes", 2 * ROOM);
}

int main(int argc, char **argv)
{
    MPI_Win windows[WINDOWS];
    struct rlimit limit;
    test_start(&argc, &argv);
    /* Of these, Open MPI needs more memory than MPICH. */
    for (int i = 0; i < WINDOWS; i++)
        MPI_OK(MPI_Win_create(here + i, sizeof here[i], 1, MPI_INFO_NULL, MPI_COMM_WORLD, windows + i));
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    set_limit(&limit);
    check_limit(&limit);
    check_no_more_room();
    cut();
    check_limit(&limit);
    check_no_more_room();
    set_limit(&limit);
    check_limit(&limit);
    for (int i = 0; i < WINDOWS; i++)
        MPI_OK(MPI_Win_free(windows + i));
    return test_finish("limited");
}

//#Cut: hold
//#Modes: plain, restart, migrate, stop
//#Shows: a program that has limited its address space: at a restart MPI has what it needs for the program's objects, and then the limit is there again
#include "../stasis_test.h"

#include <sys/resource.h>

enum { WINDOWS = 200, ROOM = 40 << 20 };

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

int main(int argc, char **argv)
{
    MPI_Win windows[WINDOWS];
    struct rlimit limit, now;
    test_start(&argc, &argv);
    /* Of these, Open MPI needs more memory than MPICH. */
    for (int i = 0; i < WINDOWS; i++)
        MPI_OK(MPI_Win_create(here + i, sizeof here[i], 1, MPI_INFO_NULL, MPI_COMM_WORLD, windows + i));
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = used() + ROOM;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    cut();
    CHECK_EQ(getrlimit(RLIMIT_AS, &now), 0);
    CHECK(now.rlim_cur == limit.rlim_cur && now.rlim_max == limit.rlim_max, "%lu, %lu", now.rlim_cur,
          now.rlim_max);
    for (int i = 0; i < WINDOWS; i++)
        MPI_OK(MPI_Win_free(windows + i));
    return test_finish("limited");
}

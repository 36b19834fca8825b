//#Ranks: 2
//#Cut: hold
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: locked memory (mlock, mlock2, MAP_LOCKED, mlockall for what is mapped later) is locked after the cut, too, and what was unlocked is not
#include "../stasis_test.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { PAGE = 4096, PAGES = 8, ACCESS = PROT_READ | PROT_WRITE, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS };

/* Whether the flag is among the VmFlags of the mapping with this address. */
static int has(const void *address, const char *flag)
{
    char line[4096], *flags;
    unsigned long start, end;
    int here = 0, found = -1;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (maps && found < 0 && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            here = start <= (unsigned long)address && (unsigned long)address < end;
        else if (here && (flags = strstr(line, "VmFlags:")) != NULL)
            found = strstr(flags, flag) != NULL;
    }
    CHECK(found >= 0, "no mapping");
    fclose(maps);
    return found;
}

static char *memory(int flags)
{
    char *made = mmap(NULL, PAGES * PAGE, ACCESS, FLAGS | flags, -1, 0);
    CHECK(made != MAP_FAILED, "mmap: %s", strerror(errno));
    /* Not joined with its neighbours. */
    CHECK_EQ(mprotect(made, PAGE, PROT_READ), 0);
    return made;
}

int main(int argc, char **argv)
{
    struct rlimit limit;
    test_start(&argc, &argv);
    CHECK_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    char *part = memory(0), *touched = memory(0), *at_once = memory(MAP_LOCKED), *freed = memory(0);
    test_fill(part + PAGE, (PAGES - 1) * PAGE, 1);
    if (mlock(part + PAGE, 3 * PAGE) != 0) {
        CHECK(errno == EPERM || errno == ENOMEM, "mlock: %s", strerror(errno));
        cut();
        return test_finish("locked");
    }
    CHECK_EQ(mlock2(touched, PAGES * PAGE, MLOCK_ONFAULT), 0);
    CHECK_EQ(mlock(freed, PAGES * PAGE), 0);
    CHECK_EQ(munlock(freed, PAGES * PAGE), 0);
    int all = geteuid() == 0 || limit.rlim_cur == RLIM_INFINITY;
    if (all)
        CHECK_EQ(mlockall(MCL_FUTURE), 0);

    cut();

    CHECK(has(part + PAGE, " lo") && !has(part + 4 * PAGE, " lo"), "the part");
    CHECK(!has(part + PAGE, " lf"), "the part is locked by touch");
    CHECK(has(touched + PAGE, " lo") && has(touched + PAGE, " lf"), "what is touched");
    CHECK(has(at_once + PAGE, " lo"), "MAP_LOCKED");
    CHECK(!has(freed + PAGE, " lo"), "it was unlocked");
    test_verify(part + PAGE, (PAGES - 1) * PAGE, 1);
    char *later = memory(0);
    CHECK_EQ(has(later + PAGE, " lo"), all);
    CHECK_EQ(munlockall(), 0);
    CHECK(!has(part + PAGE, " lo") && !has(later + PAGE, " lo"), "all was unlocked");
    return test_finish("locked");
}

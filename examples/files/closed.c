//#Ranks: 2
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle, ten, stop
//#Matrix: full
//#Timeout: 120
//#Shows: files that are opened, appended to and closed in each step, in the ways of C, Fortran and stdio, by one rank and by all in turn, until the job is killed; one of them under a name that another file had before: in the end neither a line too few nor one too many
#include "../stasis_test.h"

#include <errno.h>
#include <sys/syscall.h>

enum { APPENDED, POSITIONED, STDIO, BY_OPENAT2, OWN };

static const char *const name_of[OWN] = {"appended", "positioned", "stdio", "openat2"};

static const char *own(const char *what)
{
    static char name[64];
    snprintf(name, sizeof name, "%s.%d", what, test_rank);
    return name;
}

/* Opens a file to go on at its end. */
static int open_at_end(int way, const char *name)
{
    if (way == BY_OPENAT2) {
        struct {
            uint64_t flags, mode, resolve;
        } how = {O_WRONLY | O_CREAT | O_APPEND, 0600, 0};
        long fd = syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof how);
        /* Containers may not know it. */
        return fd >= 0 || (errno != ENOSYS && errno != EPERM) ? (int)fd : open_at_end(APPENDED, name);
    }
    if (way == APPENDED)
        return open(name, O_WRONLY | O_CREAT | O_APPEND, 0600);
    /* As Fortran does for position='append'. */
    int fd = open(name, O_RDWR | O_CREAT, 0600);
    CHECK(lseek(fd, 0, SEEK_END) >= 0, "%s: %s", name, strerror(errno));
    return fd;
}

static void append(int way, const char *name, int step, int rank)
{
    char line[64];
    int length = snprintf(line, sizeof line, "step %d of rank %d\n", step, rank);
    if (way == STDIO) {
        FILE *file = fopen(name, "a");
        CHECK(file && fputs(line, file) >= 0 && fclose(file) == 0, "%s: %s", name, strerror(errno));
        return;
    }
    int fd = open_at_end(way, name);
    CHECK(fd >= 0, "%s: %s", name, strerror(errno));
    CHECK_EQ(write(fd, line, length), length);
    CHECK_EQ(close(fd), 0);
}

/* The file holds these steps of all ranks from the first to the last, and nothing else. */
static void check(const char *name, int from, int to, int first, int last)
{
    char expected[64], line[64];
    FILE *file = fopen(name, "r");
    CHECK(file, "%s: %s", name, strerror(errno));
    for (int step = from; step < to; step++)
        for (int rank = first; rank <= last; rank++) {
            snprintf(expected, sizeof expected, "step %d of rank %d\n", step, rank);
            CHECK(fgets(line, sizeof line, file), "%s ends before step %d", name, step);
            CHECK(strcmp(line, expected) == 0, "%s has '%s' for '%s'", name, line, expected);
        }
    CHECK(!fgets(line, sizeof line, file), "%s goes on with '%s'", name, line);
    fclose(file);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    const int r = test_rank, last = test_size - 1;
    char name[64];
    int step, turned = 0;
    for (step = 0; cut_more(step, 40, MPI_COMM_WORLD); step++) {
        for (int way = 0; way < OWN; way++)
            append(way, own(name_of[way]), step, r);
        /* All ranks in turn; the last keeps it open into the next step. */
        static int common = -1;
        for (int turn = 0; turn <= last; turn++) {
            if (turn == r && r == last) {
                char line[64];
                int length = snprintf(line, sizeof line, "step %d of rank %d\n", step, r);
                if (common >= 0)
                    close(common);
                common = open_at_end(APPENDED, "common");
                CHECK_EQ(write(common, line, length), length);
            } else if (turn == r)
                append(POSITIONED, "common", step, r);
            MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        /* A log that is put aside, and another begun in its place. */
        append(APPENDED, own("log"), step, r);
        if (step == 1) {
            snprintf(name, sizeof name, "%s", own("log"));
            CHECK_EQ(rename(name, own("log.older")), 0);
            turned = step + 1;
        }
    }
    for (int way = 0; way < OWN; way++)
        check(own(name_of[way]), 0, step, r, r);
    check("common", 0, step, 0, last);
    check(own("log.older"), 0, turned, r, r);
    check(own("log"), turned, step, r, r);
    return test_finish_loop("closed");
}

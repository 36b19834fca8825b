/* Files that were removed while they were open. One has the hidden name that the kernel's client of NFS gives to such a
 * file, and which goes with the process: the test does that. The other is removed by its file system. */
#include "../stasis_test.h"

static int made(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0640);
    CHECK(fd >= 0, "%s", name);
    CHECK_EQ(write(fd, "before", 6), 6);
    return fd;
}

static void check(int fd)
{
    char text[32] = "";
    CHECK_EQ(write(fd, " after", 6), 6);
    CHECK_EQ(pread(fd, text, sizeof text, 0), 12);
    CHECK_EQ(strcmp(text, "before after"), 0);
}

int main(int argc, char **argv)
{
    char name[32], hidden[40];
    test_start(&argc, &argv);
    snprintf(name, sizeof name, "scratch.%d", test_rank);
    snprintf(hidden, sizeof hidden, ".nfs%016x%08x", 0x1234, test_rank);
    int by_nfs = made(name);
    CHECK_EQ(rename(name, hidden), 0);
    int removed = made(name);
    CHECK_EQ(unlink(name), 0);

    cut();

    check(by_nfs);
    check(removed);
    CHECK_EQ(access(name, F_OK), -1);
    return test_finish("removed");
}

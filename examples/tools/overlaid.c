/* Files of a lower layer of overlayfs, each with a second name: their inode numbers change when they are first changed.
 * Each rank changes files of its own after the cut, and finds the old content after a restart. */
#include "../stasis_test.h"

static const char *const ways[] = {"written", "truncated", "renamed", "removed"};
enum { WAYS = sizeof ways / sizeof *ways };

static char name[WAYS][64], moved[64];

static void check_old(void)
{
    for (int way = 0; way < WAYS; way++) {
        char text[16] = "";
        int fd = open(name[way], O_RDONLY);
        CHECK(fd >= 0, "%s", name[way]);
        CHECK_EQ(read(fd, text, sizeof text), 4);
        CHECK(!memcmp(text, "old\n", 4), "%s has another content", name[way]);
        close(fd);
    }
    CHECK(access(moved, F_OK), "%s is there", moved);
}

static void change(const char *file, int flags)
{
    int fd = open(file, O_RDWR | flags);
    CHECK(fd >= 0, "%s", file);
    CHECK_EQ(pwrite(fd, "new", 3, 0), 3);
    close(fd);
}

static void change_all(void)
{
    change(name[0], 0);
    change(name[1], O_TRUNC);
    CHECK(!rename(name[2], moved), "%s", moved);
    change(moved, 0);
    CHECK(!unlink(name[3]), "%s", name[3]);
}

int main(int argc, char **argv)
{
    char changed[64];
    test_start(&argc, &argv);
    for (int way = 0; way < WAYS; way++)
        snprintf(name[way], sizeof name[way], "%s.%d", ways[way], test_rank);
    snprintf(moved, sizeof moved, "moved.%d", test_rank);
    cut();
    check_old();
    /* One rank after the other: each file that is copied may get the inode number of one that was removed before. */
    for (int turn = 0; turn < test_size; turn++) {
        if (turn == test_rank)
            change_all();
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    snprintf(changed, sizeof changed, "changed.%d", test_rank);
    close(open(changed, O_WRONLY | O_CREAT, 0640));
    while (access("end", F_OK))
        usleep(10000);
    return test_finish("overlaid");
}

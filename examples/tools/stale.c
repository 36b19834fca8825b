/* A file that another machine removes while it is open. The program closes it when the file `close` is there, and says
 * so by the files `closed.RANK`. */
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    char lost[32], closed[32];
    test_start(&argc, &argv);
    snprintf(lost, sizeof lost, "lost.%d", test_rank);
    snprintf(closed, sizeof closed, "closed.%d", test_rank);
    int fd = open(lost, O_RDWR | O_CREAT | O_EXCL, 0640);
    CHECK(fd >= 0, "%s", lost);
    CHECK_EQ(write(fd, "before", 6), 6);
    cut_announce();
    while (access("close", F_OK))
        usleep(1000);
    CHECK_EQ(close(fd), 0);
    fd = open(closed, O_WRONLY | O_CREAT | O_EXCL, 0640);
    CHECK(fd >= 0, "%s", closed);
    CHECK_EQ(close(fd), 0);
    cut_hold();
    return test_finish("stale");
}

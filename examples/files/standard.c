//#Ranks: 2
//#Cut: hold
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: standard input and output closed at the cut: the numbers stay free, for the next files and for what is duplicated onto them
#include "../stasis_test.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

static void expect_closed(int fd)
{
    char byte;
    struct pollfd state = {.fd = fd, .events = POLLIN};
    CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF, "%d is open", fd);
    CHECK(read(fd, &byte, 1) == -1 && errno == EBADF, "%d can be read", fd);
    CHECK(write(fd, &byte, 1) == -1 && errno == EBADF, "%d can be written to", fd);
    CHECK(close(fd) == -1 && errno == EBADF, "%d can be closed", fd);
    CHECK(poll(&state, 1, 0) == 1 && state.revents == POLLNVAL, "%d can be polled", fd);
}

int main(int argc, char **argv)
{
    int ends[2], status;
    char text[8] = "";
    test_start(&argc, &argv);
    int in = dup(STDIN_FILENO), out = dup(STDOUT_FILENO);
    fflush(stdout);
    CHECK_EQ(close(STDIN_FILENO) + close(STDOUT_FILENO), 0);
    cut();
    expect_closed(STDIN_FILENO);
    expect_closed(STDOUT_FILENO);

    CHECK_EQ(pipe(ends), 0);
    CHECK(ends[0] == 0 && ends[1] == 1, "%d %d", ends[0], ends[1]);
    CHECK_EQ(write(1, "through", 7), 7);
    CHECK(read(0, text, 8) == 7 && strcmp(text, "through") == 0, "'%s'", text);
    CHECK_EQ(close(0) + close(1), 0);
    CHECK_EQ(fcntl(in, F_DUPFD, 1), 1);
    CHECK_EQ(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    CHECK_EQ(fcntl(0, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(close(0), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(read(0, text, 1) == -1 && open("/dev/null", O_RDONLY) == 0 ? 7 : 8);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(WEXITSTATUS(status), 7);
    CHECK_EQ(dup2(in, STDIN_FILENO), STDIN_FILENO);
    CHECK_EQ(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
    return test_finish("standard");
}

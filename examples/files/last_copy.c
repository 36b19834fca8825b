//#Ranks: 2
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle, ten
//#Matrix: full
//#Timeout: 120
//#Shows: what lasts as long as the last copy of a descriptor ends when the program closes the only one, also while checkpoints are taken without pause: locks of flock and of an open file, the ends of pipes, of a named pipe and of socket pairs, the file that may not be executed while it is written
#include "../stasis_test.h"
#include "../../upper-half/include/stasis.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { TIMES = 40, PAGE = 4096 };

static char locked[64], script[64], fifo[64];

/* HDF5 does this with each file. */
static void lock_again(void)
{
    int fd = open(locked, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0, "%s", strerror(errno));
    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0, "flock: %s", strerror(errno));
    CHECK_EQ(close(fd), 0);
}

static void lock_open_file_again(void)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(locked, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0, "%s", strerror(errno));
    CHECK(fcntl(fd, F_OFD_SETLK, &all) == 0, "F_OFD_SETLK: %s", strerror(errno));
    CHECK_EQ(close(fd), 0);
}

/* A mapping counts as a copy. */
static void lock_mapped_again(void)
{
    int fd = open(locked, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0, "%s", strerror(errno));
    CHECK(flock(fd, LOCK_EX | LOCK_NB) == 0, "flock: %s", strerror(errno));
    char *mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(mapped != MAP_FAILED, "mmap");
    CHECK_EQ(mapped[0], 'x');
    CHECK_EQ(close(fd), 0);
    CHECK_EQ(munmap(mapped, PAGE), 0);
}

/* The only other end was closed. */
static void expect_end(int fd, const char *what)
{
    struct pollfd end = {.fd = fd, .events = POLLIN};
    char byte;
    CHECK(poll(&end, 1, 0) == 1 && end.revents & POLLHUP, "%s: it has not ended", what);
    CHECK(read(fd, &byte, 1) == 0, "%s: it has not ended", what);
    CHECK_EQ(close(fd), 0);
}

static void end_pipes(void)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    close(ends[1]);
    expect_end(ends[0], "pipe");

    CHECK_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    close(ends[0]);
    CHECK(write(ends[1], "x", 1) == -1 && errno == EPIPE, "pipe: it is still read");
    close(ends[1]);

    ends[0] = open(fifo, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ends[1] = open(fifo, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
    CHECK(ends[0] >= 0 && ends[1] >= 0, "%s", strerror(errno));
    close(ends[1]);
    expect_end(ends[0], "named pipe");

    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    close(ends[1]);
    expect_end(ends[0], "socket pair");
}

/* As a program does that compiles what it then runs. */
static void execute_what_was_written(void)
{
    static const char text[] = "#!/bin/sh\nexit 7\n";
    char *const args[] = {script, NULL};
    int fd = open(script, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700), status = 0;
    CHECK(fd >= 0, "%s", strerror(errno));
    CHECK_EQ(write(fd, text, sizeof text - 1), sizeof text - 1);
    CHECK_EQ(close(fd), 0);
    pid_t child;
    int failed = posix_spawn(&child, script, NULL, NULL, args, NULL);
    CHECK(failed == 0, "posix_spawn: %s", strerror(failed));
    /* A restart between the two has no child. */
    if (waitpid(child, &status, 0) == child)
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %#x", status);
}

int main(int argc, char **argv)
{
    char page[PAGE];
    signal(SIGPIPE, SIG_IGN);
    test_start(&argc, &argv);
    snprintf(locked, sizeof locked, "locked.%d", test_rank);
    snprintf(script, sizeof script, "./script.%d", test_rank);
    snprintf(fifo, sizeof fifo, "fifo.%d", test_rank);
    memset(page, 'x', sizeof page);
    int fd = open(locked, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0, "%s", strerror(errno));
    CHECK_EQ(write(fd, page, sizeof page), sizeof page);
    CHECK_EQ(close(fd), 0);
    CHECK_EQ(mkfifo(fifo, 0600), 0);

    for (int step = 0; cut_more(step, 40, MPI_COMM_WORLD); step++) {
        if (test_rank == 0)
            stasis_checkpoint();
        for (int i = 0; i < TIMES; i++) {
            lock_again();
            lock_open_file_again();
            lock_mapped_again();
            end_pipes();
        }
        execute_what_was_written();
    }
    return test_finish_loop("last_copy");
}

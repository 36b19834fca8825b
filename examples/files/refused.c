//#Ranks: 2
//#Modes: plain, continue
//#Shows: an open file that cannot be saved: the checkpoint is refused by its name, the job is unharmed
//#Variant: listening; cut=refused network socket at
//#Variant: connected; cut=refused network socket connected to
//#Variant: datagrams; cut=refused local socket
//#Variant: child; cut=refused a pipe
//#Variant: unnamed; cut=refused has open too
//#Variant: passing; cut=refused descriptor under way
//#Variant: inotify; cut=refused inotify
//#Variant: process; cut=refused pidfd
//#Variant: terminal; cut=refused ptmx
//#Variant: lease; cut=refused lease
#include "../stasis_test.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int listening(struct sockaddr_in *at)
{
    socklen_t size = sizeof *at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)at, size) == 0 && listen(fd, 1) == 0, "listen");
    CHECK_EQ(getsockname(fd, (struct sockaddr *)at, &size), 0);
    return fd;
}

/* A child that ends when the pipe does; it has `other` open, too. */
static pid_t child_with(int pipe_end, int close_first)
{
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(close_first);
        _exit(read(pipe_end, &byte, 1) == 1 ? 7 : 8);
    }
    return child;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address;
    char text[8] = "";
    int ends[2] = {-1, -1}, more[2], status;
    test_start(&argc, &argv);
    if (test_rank == 0 || argc < 2) {
        cut();
    } else if (test_is(argc, argv, "listening") || test_is(argc, argv, "connected")) {
        int server = listening(&address);
        ends[0] = test_is(argc, argv, "connected") ? socket(AF_INET, SOCK_STREAM, 0) : -1;
        if (ends[0] >= 0) {
            CHECK_EQ(connect(ends[0], (struct sockaddr *)&address, sizeof address), 0);
            ends[1] = accept(server, NULL, NULL);
            close(server);
        }
        cut();
        if (ends[0] < 0) {
            ends[0] = socket(AF_INET, SOCK_STREAM, 0);
            CHECK_EQ(connect(ends[0], (struct sockaddr *)&address, sizeof address), 0);
            ends[1] = accept(server, NULL, NULL);
        }
        CHECK_EQ(write(ends[0], "works", 5), 5);
        CHECK_EQ(read(ends[1], text, 5), 5);
    } else if (test_is(argc, argv, "datagrams")) {
        ends[0] = socket(AF_UNIX, SOCK_DGRAM, 0);
        cut();
        CHECK_EQ(close(ends[0]), 0);
    } else if (test_is(argc, argv, "child")) {
        CHECK_EQ(pipe(ends), 0);
        pid_t child = child_with(ends[0], ends[1]);
        cut();
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(WEXITSTATUS(status), 7);
    } else if (test_is(argc, argv, "unnamed")) {
        int memory = memfd_create("held by a child", 0);
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        cut();
        CHECK_EQ(write(memory, "x", 1), 1);
        CHECK_EQ(kill(child, SIGKILL), 0);
        CHECK_EQ(waitpid(child, &status, 0), child);
    } else if (test_is(argc, argv, "passing")) {
        struct iovec part = {"x", 1};
        char control[CMSG_SPACE(sizeof(int))] = "";
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        CHECK_EQ(pipe(more), 0);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        *head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(head), &more[0], sizeof(int));
        CHECK_EQ(sendmsg(ends[0], &message, 0), 1);
        close(more[0]);
        cut();
        part.iov_base = text;
        CHECK_EQ(recvmsg(ends[1], &message, 0), 1);
        memcpy(&more[0], CMSG_DATA(head), sizeof(int));
        CHECK_EQ(write(more[1], "works", 5), 5);
        CHECK_EQ(read(more[0], text, 5), 5);
        CHECK_EQ(close(more[0]), 0);
    } else if (test_is(argc, argv, "inotify")) {
        int watch = inotify_init1(IN_NONBLOCK);
        CHECK(inotify_add_watch(watch, ".", IN_CREATE) > 0, "inotify");
        cut();
        close(open("created", O_WRONLY | O_CREAT, 0600));
        struct inotify_event event[16];
        CHECK(read(watch, event, sizeof event) > 0, "no event");
    } else if (test_is(argc, argv, "process")) {
        int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
        CHECK(self >= 0, "pidfd_open");
        cut();
        CHECK_EQ(syscall(SYS_pidfd_send_signal, self, 0, NULL, 0), 0);
    } else if (test_is(argc, argv, "terminal")) {
        int terminal = posix_openpt(O_RDWR | O_NOCTTY);
        CHECK(terminal >= 0, "openpt");
        cut();
        CHECK_EQ(unlockpt(terminal), 0);
    } else if (test_is(argc, argv, "lease")) {
        int file = open("leased", O_RDONLY | O_CREAT, 0600);
        CHECK_EQ(fcntl(file, F_SETLEASE, F_RDLCK), 0);
        cut();
        CHECK_EQ(fcntl(file, F_GETLEASE), F_RDLCK);
    }
    return test_finish("refused");
}

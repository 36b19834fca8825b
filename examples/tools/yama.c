/* Runs a command as where Yama's kernel.yama.ptrace_scope is 2: no process of it opens the memory of another one
 * (/proc/PID/mem gives EACCES), not even of its child.
 *
 *   yama COMMAND...
 *
 * The calls that open files wait for a process that decides on each of them (seccomp_unotify(2)). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Room for a descriptor in a message. */
union room {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static int pass(int socket, int fd)
{
    union room room = {0};
    char byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return sendmsg(socket, &message, 0) < 0;
}

static int receive(int socket)
{
    union room room = {0};
    char byte;
    int fd = -1;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = room.bytes, .msg_controllen = sizeof room.bytes};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Whether a thread opens the memory of another process. */
static int reaches_out(unsigned thread, unsigned long long name)
{
    char place[64], path[64] = "";
    unsigned process;
    int length = 0;
    snprintf(place, sizeof place, "/proc/%u/mem", thread);
    int memory = open(place, O_RDONLY | O_CLOEXEC);
    if (memory < 0)
        return 0;
    /* Up to an unmapped page. */
    ssize_t got = pread(memory, path, sizeof path - 1, (off_t)name);
    close(memory);
    return got > 0 && sscanf(path, "/proc/%u/mem%n", &process, &length) == 1 && length && !path[length] &&
           process != thread;
}

/* Decides on the calls until no process is left that makes them. */
static void decide(int listener)
{
    struct pollfd calls = {.fd = listener, .events = POLLIN};
    while (poll(&calls, 1, -1) > 0 && !(calls.revents & POLLHUP)) {
        struct seccomp_notif call = {0};
        /* A caller that was killed meanwhile is no more in the list. */
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call))
            continue;
        struct seccomp_notif_resp answer = {.id = call.id};
        if (reaches_out(call.pid, call.data.args[1]))
            answer.error = -EACCES;
        else
            answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
}

int main(int argc, char **argv)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    int ends[2];
    if (argc < 2) {
        fprintf(stderr, "usage: yama COMMAND...\n");
        return 125;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        perror("yama");
        return 125;
    }
    /* The command gets no child that it has not made. */
    pid_t middle = fork();
    if (middle == 0 && fork() == 0) {
        close(ends[1]);
        int listener = receive(ends[0]);
        if (listener >= 0)
            decide(listener);
    }
    if (middle == 0)
        _exit(0);
    waitpid(middle, NULL, 0);
    close(ends[0]);
    int listener = -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    if (listener < 0 || pass(ends[1], listener)) {
        perror("yama");
        return 125;
    }
    close(listener);
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 126;
}

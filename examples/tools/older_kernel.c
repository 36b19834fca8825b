/* Runs a command on a kernel that seems to lack something:
 *
 *   older_kernel sud COMMAND...     Syscall User Dispatch: prctl(59) gives EINVAL, as before Linux 5.11
 *   older_kernel seccomp COMMAND...  filters: seccomp gives ENOSYS, as without CONFIG_SECCOMP_FILTER
 *   older_kernel membarrier COMMAND...  membarrier: gives ENOSYS, as before Linux 4.3
 *   older_kernel scan COMMAND...    PAGEMAP_SCAN: the ioctl gives ENOTTY, as before Linux 6.7
 *   older_kernel watch COMMAND...   userfaultfd: gives EPERM, as in containers that forbid it
 *   older_kernel fsgsbase COMMAND...  writes to the thread pointer: AT_HWCAP2 does not allow them, as before Linux 5.9.
 *                                   The command is a child, and what it executes itself sees the kernel as it is */
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

static const struct {
    const char *name;
    unsigned call, argument, mask, value;
    int error;
} LACKS[] = {
    {"sud", SYS_prctl, 0, ~0u, 59, EINVAL},
    {"seccomp", SYS_seccomp, 0, 0, 0, ENOSYS},
    {"membarrier", SYS_membarrier, 0, 0, 0, ENOSYS},
    {"scan", SYS_ioctl, 1, ~0u, 0xC0606610, ENOTTY},
    {"watch", SYS_userfaultfd, 0, 0, 0, EPERM},
};

static int forbid(unsigned call, unsigned argument, unsigned mask, unsigned value, int error)
{
    struct sock_filter filter[] = {
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4),
        LOAD(args[argument]),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void fail(const char *what)
{
    perror(what);
    _exit(125);
}

/* A word of the stopped child. */
static long word(pid_t child, unsigned long at)
{
    errno = 0;
    const long found = ptrace(PTRACE_PEEKDATA, child, at, 0);
    if (errno)
        fail("PTRACE_PEEKDATA");
    return found;
}

/* Takes FSGSBASE out of the auxiliary vector of a child that has just executed a program. The kernel has put that above
 * the arguments and the environment, each with a zero behind it. */
static void without_fsgsbase(pid_t child)
{
    const unsigned long fsgsbase = 1 << 1;
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, child, 0, &registers) != 0)
        fail("PTRACE_GETREGS");
    unsigned long at = registers.rsp + 8;
    for (int lists = 0; lists < 2; lists++) {
        while (word(child, at))
            at += 8;
        at += 8;
    }
    for (long type; (type = word(child, at)) != AT_HWCAP2; at += 16) {
        if (type == AT_NULL) {
            fprintf(stderr, "older_kernel: there is no AT_HWCAP2\n");
            _exit(125);
        }
    }
    if (ptrace(PTRACE_POKEDATA, child, at + 8, word(child, at + 8) & ~fsgsbase) != 0)
        fail("PTRACE_POKEDATA");
}

/* Runs the command as a child; its exit status. */
static int run_without_fsgsbase(char **command)
{
    int status;
    const pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
            fail("PTRACE_TRACEME");
        execvp(command[0], command);
        perror(command[0]);
        _exit(126);
    }
    /* The child stops when it has executed the command. */
    if (waitpid(child, &status, 0) != child)
        fail("waitpid");
    if (WIFSTOPPED(status)) {
        without_fsgsbase(child);
        if (ptrace(PTRACE_DETACH, child, 0, 0) != 0 || waitpid(child, &status, 0) != child)
            fail("PTRACE_DETACH");
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "fsgsbase") == 0)
        return run_without_fsgsbase(argv + 2);
    for (size_t i = 0; argc > 2 && i < sizeof LACKS / sizeof *LACKS; i++) {
        if (strcmp(argv[1], LACKS[i].name) != 0)
            continue;
        if (forbid(LACKS[i].call, LACKS[i].argument, LACKS[i].mask, LACKS[i].value, LACKS[i].error)) {
            perror("older_kernel");
            return 125;
        }
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        return 126;
    }
    fprintf(stderr, "usage: older_kernel sud|seccomp|membarrier|scan|watch|fsgsbase COMMAND...\n");
    return 125;
}

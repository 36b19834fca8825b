/* Runs a command on a kernel that seems to lack something:
 *
 *   older_kernel sud COMMAND...     Syscall User Dispatch: prctl(59) gives EINVAL, as before Linux 5.11
 *   older_kernel seccomp COMMAND...  filters: seccomp gives ENOSYS, as without CONFIG_SECCOMP_FILTER
 *   older_kernel membarrier COMMAND...  membarrier: gives ENOSYS, as before Linux 4.3
 *   older_kernel scan COMMAND...    PAGEMAP_SCAN: the ioctl gives ENOTTY, as before Linux 6.7
 *   older_kernel watch COMMAND...   userfaultfd: gives EPERM, as in containers that forbid it */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

int main(int argc, char **argv)
{
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
    fprintf(stderr, "usage: older_kernel sud|seccomp|membarrier|scan|watch COMMAND...\n");
    return 125;
}

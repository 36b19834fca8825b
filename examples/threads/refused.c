//#Ranks: 2
//#Flags: -pthread
//#Modes: plain, continue
//#Shows: what a process may do to itself and no image can hold: the checkpoint is refused by name, the job unharmed
//#Variant: seccomp; cut=refused PR_SET_SECCOMP
//#Variant: unshare; cut=refused unshare
//#Variant: cpu_timer; cut=refused timer
//#Variant: semaphores; cut=refused semget
//#Variant: queue; cut=refused msgget
#include "../stasis_test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>

int main(int argc, char **argv)
{
    int semaphores = -1, queue = -1;
    test_start(&argc, &argv);
    if (test_is(argc, argv, "seccomp")) {
        struct sock_filter allow_all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        struct sock_fprog program = {1, &allow_all};
        CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    } else if (test_is(argc, argv, "unshare")) {
        CHECK_EQ(unshare(CLONE_FS), 0);
    } else if (test_is(argc, argv, "semaphores") || test_is(argc, argv, "queue")) {
        int removed = semget(IPC_PRIVATE, 1, 0600);
        CHECK_EQ(semctl(removed, 0, IPC_RMID), 0);
        if (test_is(argc, argv, "queue"))
            queue = msgget(IPC_PRIVATE, 0600);
        else
            semaphores = semget(IPC_PRIVATE, 1, 0600);
        CHECK(queue >= 0 || semaphores >= 0, "no object of System V");
    } else {
        struct sigevent event = {.sigev_notify = SIGEV_NONE};
        clockid_t clock;
        timer_t timer;
        CHECK_EQ(pthread_getcpuclockid(pthread_self(), &clock), 0);
        CHECK_EQ(timer_create(clock, &event, &timer), 0);
    }
    cut();
    if (semaphores >= 0)
        CHECK_EQ(semctl(semaphores, 0, IPC_RMID), 0);
    if (queue >= 0)
        CHECK_EQ(msgctl(queue, IPC_RMID, NULL), 0);
    return test_finish(argv[1]);
}

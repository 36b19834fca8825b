//#Ranks: 2
//#Shows: child processes: one that has ended and was not waited for, one that lives at the cut, a fork without exec, and new ones after the cut
//#Cut: hold
//#Matrix: full
#include "../stasis_test.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* A child that runs the shell. */
static pid_t shell(const char *command)
{
    pid_t pid = -1;
    char *words[] = {"sh", "-c", (char *)command, NULL};
    CHECK_EQ(posix_spawn(&pid, "/bin/sh", NULL, NULL, words, environ), 0);
    return pid;
}

/* A copy of this program that makes no MPI call and ends with `status`. */
static pid_t copy(int status)
{
    pid_t pid = fork();
    CHECK(pid >= 0, "fork");
    if (pid == 0) {
        char *memory = malloc(1 << 20);
        test_fill(memory, 1 << 20, 9);
        test_verify(memory, 1 << 20, 9);
        _exit(status);
    }
    return pid;
}

/* Until the child has ended; it still can be waited for. */
static void see_end(pid_t pid)
{
    siginfo_t info;
    CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

int main(int argc, char **argv)
{
    pid_t exited, killed, forked, looked_at, living;
    siginfo_t info;
    int status;

    test_start(&argc, &argv);
    CHECK_EQ(WEXITSTATUS(system("exit 3")), 3);
    exited = shell("exit 7");
    looked_at = shell("exit 8");
    killed = shell("kill -9 $$");
    forked = copy(9);
    living = shell("exec sleep 20");
    see_end(exited);
    see_end(looked_at);
    see_end(killed);
    see_end(forked);

    cut();

    CHECK_EQ(waitpid(forked, &status, 0), forked);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9, "status %x", status);
    CHECK_EQ(waitpid(killed, &status, 0), killed);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", status);
    CHECK_EQ(waitid(P_PID, (id_t)looked_at, &info, WEXITED | WNOWAIT), 0);
    CHECK_EQ(waitid(P_PID, (id_t)looked_at, &info, WEXITED), 0);
    CHECK(info.si_code == CLD_EXITED && info.si_status == 8, "status %d", info.si_status);
    CHECK(waitpid(looked_at, &status, 0) == -1 && errno == ECHILD, "waited for twice");
    CHECK_EQ(wait(&status), exited);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "status %x", status);
    /* It goes on without a restarted parent, which then has no such child. */
    if (waitpid(living, &status, WNOHANG) == 0) {
        CHECK_EQ(kill(living, SIGKILL), 0);
        CHECK_EQ(waitpid(living, &status, 0), living);
    } else {
        CHECK_EQ(errno, ECHILD);
    }
    CHECK_EQ(waitpid(copy(5), &status, 0) > 0, 1);
    CHECK_EQ(WEXITSTATUS(status), 5);
    CHECK_EQ(WEXITSTATUS(system("exit 4")), 4);
    CHECK(wait(&status) == -1 && errno == ECHILD, "no child is left");
    return test_finish("children");
}

//#Ranks: 2
//#Cut: hold
//#Shows: a periodic timer whose signal is blocked and pending at the cut goes on afterwards
#include "../stasis_test.h"

#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t alarms;

static void on_alarm(int signal) { alarms += signal == SIGALRM; }

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval timer = {{0, 20000}, {0, 20000}};
    sigset_t blocked, before, pending;
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    /* Threads of the library's own block it too. */
    test_start(&argc, &argv);
    setitimer(ITIMER_REAL, &timer, NULL);
    do
        sigpending(&pending);
    while (!sigismember(&pending, SIGALRM));
    cut();
    CHECK_EQ(alarms, 0);
    while (alarms < 3)
        sigsuspend(&before);
    return test_finish("pending_alarm");
}

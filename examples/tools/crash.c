/* Dies, behind a place where it can be cut, of what its argument names: "abort", "fault", "sent" (the
 * signal of a fault, that nothing has caused). "caught" handles such a signal and goes on to its end. */
#include <signal.h>
#include "../stasis_test.h"

static volatile sig_atomic_t caught;

static void catch(int signal)
{
    caught = signal;
}

int main(int argc, char **argv)
{
    volatile int *nowhere = NULL;
    test_start(&argc, &argv);
    cut();
    if (test_is(argc, argv, "abort"))
        abort();
    if (test_is(argc, argv, "fault"))
        *nowhere = 1;
    if (test_is(argc, argv, "caught"))
        signal(SIGFPE, catch);
    raise(SIGFPE);
    CHECK_EQ(caught, SIGFPE);
    return test_finish("crash");
}

//#Ranks: 2
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle, stop
//#Matrix: full
//#Flags: -pthread
//#Shows: threads that never stop overwriting their memory: an image written while they go on holds the values of the cut; nobody sees the process that holds them
#include "../stasis_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { WORDS = 1 << 20 };

/* Private memory, memory that a fork does not copy, and memory that a fork shares. */
enum { PRIVATE, UNFORKED, SHARED_HERE, KINDS };

static volatile int ending;
static volatile sig_atomic_t children_ended;

/* Pass after pass every word becomes the number of the pass, and must have been that of the one before:
 * a word of a later moment in the image would not be. */
static void *overwrite(void *kind)
{
    int flags = (intptr_t)kind == SHARED_HERE ? MAP_SHARED : MAP_PRIVATE;
    volatile uint64_t *words = mmap(NULL, WORDS * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                                    flags | MAP_ANONYMOUS, -1, 0);
    CHECK(words != MAP_FAILED, "mmap: %s", strerror(errno));
    if ((intptr_t)kind == UNFORKED)
        CHECK_EQ(madvise((void *)words, WORDS * sizeof(uint64_t), MADV_DONTFORK), 0);
    for (uint64_t pass = 1; !ending; pass++)
        for (size_t i = 0; i < WORDS; i++) {
            CHECK_EQ(words[i], pass - 1);
            words[i] = pass;
        }
    return NULL;
}

static void child_ended(int signal)
{
    (void)signal;
    children_ended++;
}

int main(int argc, char **argv)
{
    pthread_t threads[KINDS];
    test_start_threads(&argc, &argv, MPI_THREAD_FUNNELED);
    struct sigaction action = {.sa_handler = child_ended};
    CHECK_EQ(sigaction(SIGCHLD, &action, NULL), 0);
    for (intptr_t kind = 0; kind < KINDS; kind++)
        CHECK_EQ(pthread_create(&threads[kind], NULL, overwrite, (void *)kind), 0);

    for (int step = 0; cut_more(step, 60, MPI_COMM_WORLD); step++) {
        int sum = 0;
        MPI_OK(MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(sum, step * test_size);
        CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
        CHECK_EQ(errno, ECHILD);
    }
    ending = 1;
    for (int kind = 0; kind < KINDS; kind++)
        CHECK_EQ(pthread_join(threads[kind], NULL), 0);
    CHECK_EQ(children_ended, 0);
    return test_finish_loop("rewritten");
}

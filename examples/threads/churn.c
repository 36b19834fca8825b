//#Ranks: 2
//#Cut: loop
//#Flags: -pthread
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: threads that are born and die all the time, in every way, while ranks exchange messages
#include "../stasis_test.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

static __thread int mine;
static int over;
static pthread_key_t key;

static void at_end(void *value) { free(value); }

static void *short_life(void *argument)
{
    CHECK_EQ(mine, 0);
    mine = 1;
    pthread_setspecific(key, malloc(100));
    return argument;
}
static void *exits(void *argument)
{
    mine = 2;
    pthread_exit(argument);
}
static void *is_cancelled(void *argument)
{
    sem_t never;
    sem_init(&never, 0, 0);
    for (;;)
        sem_wait(&never);
    return argument;
}
static sem_t detached_done;
static void *detached(void *argument)
{
    sem_post(&detached_done);
    return argument;
}
/* Makes one that outlives it. */
static void *parent(void *argument)
{
    pthread_t child;
    CHECK_EQ(pthread_create(&child, NULL, detached, NULL), 0);
    CHECK_EQ(pthread_detach(child), 0);
    return argument;
}

static void *churn(void *argument)
{
    void *(*const kinds[])(void *) = {short_life, exits, is_cancelled, parent};
    long *rounds = argument;
    while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
        pthread_t threads[4];
        void *result;
        for (int i = 0; i < 4; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, kinds[i], &threads[i]), 0);
        CHECK_EQ(pthread_cancel(threads[2]), 0);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(pthread_join(threads[i], &result), 0);
            CHECK(result == (i == 2 ? PTHREAD_CANCELED : (void *)&threads[i]), "thread %d", i);
        }
        while (sem_wait(&detached_done) != 0)
            ;
        __atomic_fetch_add(rounds, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t churning[2];
    long rounds[2] = {0, 0};
    test_start_threads(&argc, &argv, MPI_THREAD_FUNNELED);
    pthread_key_create(&key, at_end);
    sem_init(&detached_done, 0, 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&churning[i], NULL, churn, &rounds[i]), 0);
    for (int step = 0; cut_more(step, 200, MPI_COMM_WORLD); step++) {
        int out = step, in = -1, other = 1 - test_rank;
        MPI_OK(MPI_Sendrecv(&out, 1, MPI_INT, other, 1, &in, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(in, step);
    }
    long seen = __atomic_load_n(&rounds[0], __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&rounds[0], __ATOMIC_SEQ_CST) < seen + 2)
        sched_yield();
    __atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(churning[i], NULL), 0);
    return test_finish_loop("churn");
}

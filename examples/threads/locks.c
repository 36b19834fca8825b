//#Ranks: 2
//#Cut: hold
//#Flags: -pthread
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: locks of every kind held and waited for across the cut: recursive, error-checking, robust, priority-inheriting, read-write, barrier, condition
#include "../stasis_test.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

enum { PLAIN, INHERIT };

typedef struct {
    pthread_mutex_t mutex;
    int robust, inherits, entered, inside, owner_died;
    pthread_t waiters[2];
} guarded;

static void make(guarded *g, int kind, int robust, int inherits)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, kind);
    if (robust)
        pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    if (inherits)
        pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
    CHECK_EQ(pthread_mutex_init(&g->mutex, &a), 0);
    g->robust = robust;
    g->inherits = inherits;
}

/* Before the cut this one stands in the kernel, waiting. */
static void *waiter(void *argument)
{
    guarded *g = argument;
    __atomic_fetch_add(&g->entered, 1, __ATOMIC_SEQ_CST);
    int result = pthread_mutex_lock(&g->mutex);
    CHECK(result == 0 || (g->robust && result == EOWNERDEAD), "locked: %d", result);
    if (result == EOWNERDEAD) {
        g->owner_died++;
        CHECK_EQ(pthread_mutex_consistent(&g->mutex), 0);
    }
    CHECK_EQ(g->inside++, 0);
    struct timespec moment = {0, 2000000};
    nanosleep(&moment, NULL);
    CHECK_EQ(--g->inside, 0);
    CHECK_EQ(pthread_mutex_unlock(&g->mutex), 0);
    return NULL;
}

static void let_wait(guarded *g)
{
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&g->waiters[i], NULL, waiter, g), 0);
    while (__atomic_load_n(&g->entered, __ATOMIC_SEQ_CST) < 2)
        sched_yield();
}

static void join(guarded *g)
{
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(g->waiters[i], NULL), 0);
    CHECK_EQ(pthread_mutex_lock(&g->mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&g->mutex), 0);
}

/* Holds a mutex across the cut and then ends without unlocking it. */
static sem_t may_die, holds;
static void *dies(void *argument)
{
    guarded *g = argument;
    CHECK_EQ(pthread_mutex_lock(&g->mutex), 0);
    sem_post(&holds);
    while (sem_wait(&may_die) != 0)
        CHECK_EQ(errno, EINTR);
    return NULL;
}

static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static int written;
static void *writes(void *argument)
{
    CHECK_EQ(pthread_rwlock_wrlock(&shared), 0);
    written++;
    CHECK_EQ(pthread_rwlock_unlock(&shared), 0);
    return argument;
}

static pthread_barrier_t barrier;
static void *meets(void *argument)
{
    int result = pthread_barrier_wait(&barrier);
    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD, "barrier: %d", result);
    return argument;
}

static guarded with_condition;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int waiting, signalled;
static void *awaits(void *argument)
{
    CHECK_EQ(pthread_mutex_lock(&with_condition.mutex), 0);
    waiting++;
    while (!signalled)
        CHECK_EQ(pthread_cond_wait(&condition, &with_condition.mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&with_condition.mutex), 0);
    return argument;
}

int main(int argc, char **argv)
{
    static guarded all[5], robust[2];
    pthread_t dying[2], writer, meeting[2], awaiting[2];
    test_start_threads(&argc, &argv, MPI_THREAD_FUNNELED);
    make(&all[0], PTHREAD_MUTEX_NORMAL, 0, PLAIN);
    make(&all[1], PTHREAD_MUTEX_RECURSIVE, 0, PLAIN);
    make(&all[2], PTHREAD_MUTEX_ERRORCHECK, 0, PLAIN);
    make(&all[3], PTHREAD_MUTEX_ERRORCHECK, 0, INHERIT);
    make(&all[4], PTHREAD_MUTEX_RECURSIVE, 1, INHERIT);
    make(&robust[0], PTHREAD_MUTEX_NORMAL, 1, PLAIN);
    make(&robust[1], PTHREAD_MUTEX_NORMAL, 1, INHERIT);
    make(&with_condition, PTHREAD_MUTEX_NORMAL, 0, INHERIT);
    sem_init(&may_die, 0, 0);
    sem_init(&holds, 0, 0);
    pthread_barrier_init(&barrier, NULL, 3);

    for (int i = 0; i < 5; i++) {
        CHECK_EQ(pthread_mutex_lock(&all[i].mutex), 0);
        if (i == 1 || i == 4)
            CHECK_EQ(pthread_mutex_lock(&all[i].mutex), 0);
        let_wait(&all[i]);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&dying[i], NULL, dies, &robust[i]), 0);
        while (sem_wait(&holds) != 0)
            CHECK_EQ(errno, EINTR);
        let_wait(&robust[i]);
        CHECK_EQ(pthread_create(&meeting[i], NULL, meets, NULL), 0);
        CHECK_EQ(pthread_create(&awaiting[i], NULL, awaits, NULL), 0);
    }
    CHECK_EQ(pthread_rwlock_rdlock(&shared), 0);
    CHECK_EQ(pthread_create(&writer, NULL, writes, NULL), 0);
    for (int all_wait = 0; !all_wait;) {
        pthread_mutex_lock(&with_condition.mutex);
        all_wait = waiting == 2;
        pthread_mutex_unlock(&with_condition.mutex);
    }

    cut();

    for (int i = 0; i < 5; i++) {
        int again = pthread_mutex_trylock(&all[i].mutex);
        CHECK_EQ(again, i == 1 || i == 4 ? 0 : i == 3 ? EDEADLK : EBUSY);
        if (i == 2 || i == 3)
            CHECK_EQ(pthread_mutex_lock(&all[i].mutex), EDEADLK);
        if (i == 1 || i == 4)
            for (int n = 0; n < 2; n++)
                CHECK_EQ(pthread_mutex_unlock(&all[i].mutex), 0);
        CHECK_EQ(all[i].inside, 0);
        CHECK_EQ(pthread_mutex_unlock(&all[i].mutex), 0);
        join(&all[i]);
        if (i == 2 || i == 3)
            CHECK_EQ(pthread_mutex_unlock(&all[i].mutex), EPERM);
    }
    for (int i = 0; i < 2; i++)
        sem_post(&may_die);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(dying[i], NULL), 0);
        join(&robust[i]);
        CHECK_EQ(robust[i].owner_died, 1);
    }
    CHECK_EQ(written, 0);
    CHECK_EQ(pthread_rwlock_unlock(&shared), 0);
    CHECK_EQ(pthread_join(writer, NULL), 0);
    CHECK_EQ(written, 1);
    meets(NULL);
    pthread_mutex_lock(&with_condition.mutex);
    signalled = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&with_condition.mutex);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(meeting[i], NULL), 0);
        CHECK_EQ(pthread_join(awaiting[i], NULL), 0);
    }
    return test_finish("locks");
}

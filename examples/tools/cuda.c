/* A stand-in for CUDA's driver, for machines without a GPU. It has what Stasis depends on: memory that is not in the
 * process, but in another one that stands for the GPU and ends with it; a connection to that, with which no checkpoint
 * can be taken; a thread that takes part in a freeze and in a thaw; calls that wait while the process is locked.
 * STANDIN_FAILS=checkpoint makes cuCheckpointProcessCheckpoint fail. */
#define _GNU_SOURCE
#include "cuda_standin.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { INVALID_VALUE = 1, NOT_INITIALIZED = 3, ILLEGAL_STATE = 401, NOT_READY = 600, NOT_SUPPORTED = 801 };
/* Attributes of an address, and a value. */
enum { MEMORY_TYPE = 2, DEVICE = 2, IS_MANAGED = 8 };
enum state { RUNNING, LOCKED, CHECKPOINTED };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum state state;
static int calls, gpu = -1, orders[2], answers[2];
static pid_t child;
static void *memory;
static size_t memory_bytes;
static uint64_t kept[STANDIN_CELLS];

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "FAILED: stand-in for a GPU: %s (%s)\n", what, strerror(errno));
    _exit(3);
}

static void send_all(int to, const void *bytes, size_t n)
{
    must(write(to, bytes, n) == (ssize_t)n, "write");
}

static void receive_all(int from, void *bytes, size_t n)
{
    must(read(from, bytes, n) == (ssize_t)n, "read");
}

/* An order for the GPU: a cell that is set, or changed, and answered with its content. */
struct order {
    uint32_t cell, set;
    uint64_t value;
};

static void be_a_gpu(int line)
{
    static uint64_t cells[STANDIN_CELLS];
    struct order order;
    while (read(line, &order, sizeof order) == (ssize_t)sizeof order) {
        uint64_t *cell = &cells[order.cell % STANDIN_CELLS];
        *cell = order.set ? order.value : *cell + order.value;
        send_all(line, cell, sizeof *cell);
    }
    _exit(0);
}

static uint64_t ask_gpu(struct order order)
{
    uint64_t answer;
    send_all(gpu, &order, sizeof order);
    receive_all(gpu, &answer, sizeof answer);
    return answer;
}

static void open_gpu(void)
{
    int line[2];
    must(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line), "socketpair");
    child = fork();
    must(child >= 0, "fork");
    if (child == 0) {
        close(line[0]);
        be_a_gpu(line[1]);
    }
    close(line[1]);
    gpu = line[0];
}

/* The driver's own thread: it alone copies what the GPU holds. */
static void *serve(void *unused)
{
    char order;
    (void)unused;
    while (read(orders[0], &order, 1) == 1) {
        if (order == 'r')
            open_gpu();
        for (uint32_t i = 0; i < STANDIN_CELLS; i++) {
            struct order put = {i, 1, kept[i]}, get = {i, 0, 0};
            kept[i] = ask_gpu(order == 'r' ? put : get);
        }
        if (order == 'c') {
            close(gpu);
            gpu = -1;
            must(waitpid(child, NULL, 0) == child, "waitpid");
        }
        send_all(answers[1], &order, 1);
    }
    return NULL;
}

static void let_serve(char order)
{
    send_all(orders[1], &order, 1);
    receive_all(answers[0], &order, 1);
}

int cuInit(unsigned flags)
{
    pthread_t thread;
    (void)flags;
    must(!pipe(orders) && !pipe(answers), "pipe");
    must(!pthread_create(&thread, NULL, serve, NULL), "pthread_create");
    open_gpu();
    return 0;
}

uint64_t standin_add(uint32_t cell, uint64_t value)
{
    pthread_mutex_lock(&mutex);
    while (state != RUNNING)
        pthread_cond_wait(&changed, &mutex);
    calls++;
    must(gpu >= 0, "it is used while it is closed");
    uint64_t now = ask_gpu((struct order){cell, 0, value});
    calls--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return now;
}

/* As in CUDA's driver, an address at which the process can read nothing. */
void *standin_alloc(size_t bytes)
{
    must(!memory, "it has one piece of memory");
    memory_bytes = bytes;
    memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED, "mmap");
    return memory;
}

int cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
    const uint64_t start = (uint64_t)(uintptr_t)memory;
    if (!memory || address < start || address - start >= memory_bytes)
        return INVALID_VALUE;
    if (attribute == MEMORY_TYPE)
        *(unsigned *)value = DEVICE;
    else if (attribute == IS_MANAGED)
        *(unsigned char *)value = 0;
    else
        return INVALID_VALUE;
    return 0;
}

int cuCheckpointProcessLock(int pid, unsigned *options)
{
    struct timespec until;
    int result = 0;
    if (gpu < 0 && state == RUNNING)
        return NOT_INITIALIZED;
    if (pid != getpid() || state != RUNNING)
        return ILLEGAL_STATE;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += options[0] / 1000;
    pthread_mutex_lock(&mutex);
    while (!result && calls)
        result = pthread_cond_timedwait(&changed, &mutex, &until);
    if (!result)
        state = LOCKED;
    pthread_mutex_unlock(&mutex);
    return result ? NOT_READY : 0;
}

int cuCheckpointProcessCheckpoint(int pid, void *options)
{
    const char *fails = getenv("STANDIN_FAILS");
    (void)options;
    if (fails && !strcmp(fails, "checkpoint"))
        return NOT_SUPPORTED;
    if (pid != getpid() || state != LOCKED)
        return ILLEGAL_STATE;
    let_serve('c');
    state = CHECKPOINTED;
    return 0;
}

int cuCheckpointProcessRestore(int pid, void *options)
{
    (void)options;
    if (pid != getpid() || state != CHECKPOINTED)
        return ILLEGAL_STATE;
    let_serve('r');
    state = LOCKED;
    return 0;
}

int cuCheckpointProcessUnlock(int pid, void *options)
{
    (void)options;
    if (pid != getpid() || state != LOCKED)
        return ILLEGAL_STATE;
    pthread_mutex_lock(&mutex);
    state = RUNNING;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return 0;
}

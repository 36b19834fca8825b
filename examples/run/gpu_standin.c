//#Ranks: 2
//#Cut: hold
//#Preload: tools/cuda.c
//#Flags: -pthread
//#Shows: memory of a GPU (a stand-in for its driver), which a thread uses before the cut, at it and after it
//#Variant: thread
//#Variant: checkpoint; modes=continue; cut=refused cuCheckpointProcessCheckpoint of CUDA's driver returned 801
#include "../stasis_test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { CELLS = 64, LEAST = 1000 };

static uint64_t (*add)(uint32_t cell, uint64_t value);
static atomic_int over;
static uint64_t rounds;

/* Counts in the GPU's memory until the program has been cut. Each content is what it should be. */
static void *count(void *unused)
{
    (void)unused;
    for (; rounds < LEAST || !atomic_load(&over); rounds++) {
        uint64_t now = add(rounds % CELLS, 1);
        CHECK_EQ(now, (uint64_t)test_rank * 1000000 + rounds / CELLS + 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(RTLD_DEFAULT, "cuInit");
    add = (uint64_t(*)(uint32_t, uint64_t))dlsym(RTLD_DEFAULT, "standin_add");
    if (!test_is(argc, argv, "thread"))
        setenv("STANDIN_FAILS", argv[1], 1);
    test_start_threads(&argc, &argv, MPI_THREAD_FUNNELED);
    CHECK(init && add, "the stand-in for the driver is not loaded");
    CHECK_EQ(init(0), 0);
    for (uint32_t i = 0; i < CELLS; i++)
        add(i, (uint64_t)test_rank * 1000000);
    CHECK_EQ(pthread_create(&thread, NULL, count, NULL), 0);
    cut();
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    atomic_store(&over, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return test_finish("gpu_standin");
}

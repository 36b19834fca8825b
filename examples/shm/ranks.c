//#Ranks: 3
//#Shows: memory that the ranks of a node share, made by the application itself; each sees what the others write, before the cut and after it
//#Cut: hold
//#Variant: unlinked; matrix=full
//#Variant: named
//#Variant: memfd
//#Variant: file
//#Variant: segment; matrix=full
//#Variant: segment_key
//#Variant: parts
#include "../stasis_test.h"

#include <pthread.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>

enum { SLOT = 40000, SLOTS = 3, ROUNDS = 1000 };

/* What is shared. The mutex and the counter lie in it, too. */
struct common {
    pthread_mutex_t mutex;
    pthread_barrier_t barrier;
    volatile long counter;
    char slots[SLOTS][SLOT];
};

static char name[64];
static int segment = -1;

static void *map_file(int fd)
{
    void *at = mmap(NULL, sizeof(struct common), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED, "mmap of %s", name);
    close(fd);
    return at;
}

/* Rank 0 makes it and tells the others its name. */
static void agree_on_name(const char *format)
{
    snprintf(name, sizeof name, format, (int)getpid());
    MPI_OK(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD));
}

static struct common *open_named(int (*open_it)(const char *, int, mode_t))
{
    int fd = -1;
    if (test_rank == 0) {
        fd = open_it(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        CHECK(fd >= 0, "making %s", name);
        CHECK_EQ(ftruncate(fd, sizeof(struct common)), 0);
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank != 0)
        fd = open_it(name, O_RDWR, 0);
    CHECK(fd >= 0, "opening %s", name);
    return map_file(fd);
}

static int open_file(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

/* A memfd has no name, but its maker's descriptor can be opened. */
static struct common *open_memfd(void)
{
    int fd = -1;
    struct common *common;
    if (test_rank == 0) {
        fd = memfd_create("common", MFD_CLOEXEC);
        CHECK(fd >= 0, "memfd_create");
        CHECK_EQ(ftruncate(fd, sizeof(struct common)), 0);
        snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), fd);
    }
    MPI_OK(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD));
    common = map_file(test_rank == 0 ? dup(fd) : open(name, O_RDWR));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 0)
        close(fd);
    return common;
}

static struct common *attach(key_t key, int doomed)
{
    struct common *common;
    if (test_rank == 0)
        segment = shmget(key, sizeof(struct common), IPC_CREAT | IPC_EXCL | 0600);
    MPI_OK(MPI_Bcast(&segment, 1, MPI_INT, 0, MPI_COMM_WORLD));
    CHECK(segment >= 0, "shmget");
    common = shmat(segment, NULL, 0);
    CHECK(common != (void *)-1, "shmat");
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (doomed && test_rank == 0)
        CHECK_EQ(shmctl(segment, IPC_RMID, NULL), 0);
    return common;
}

static struct common *make(const char *how)
{
    if (!strcmp(how, "unlinked") || !strcmp(how, "named")) {
        agree_on_name("/stasis-test-%d");
        struct common *common = open_named(shm_open);
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (test_rank == 0 && !strcmp(how, "unlinked"))
            CHECK_EQ(shm_unlink(name), 0);
        return common;
    }
    if (!strcmp(how, "file") || !strcmp(how, "parts")) {
        agree_on_name("shared-%d");
        return open_named(open_file);
    }
    if (!strcmp(how, "segment"))
        return attach(IPC_PRIVATE, 1);
    if (!strcmp(how, "segment_key")) {
        int key = (int)getpid();
        MPI_OK(MPI_Bcast(&key, 1, MPI_INT, 0, MPI_COMM_WORLD));
        return attach(key, 0);
    }
    return open_memfd();
}

/* Everybody writes its slot and reads all others, and counts with the others under the mutex. */
static void exchange(struct common *common, uint32_t seed, long counted)
{
    test_fill(common->slots[test_rank], SLOT, seed + (uint32_t)test_rank);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&common->mutex);
        common->counter++;
        pthread_mutex_unlock(&common->mutex);
    }
    pthread_barrier_wait(&common->barrier);
    for (int r = 0; r < SLOTS; r++)
        test_verify(common->slots[r], SLOT, seed + (uint32_t)r);
    CHECK_EQ(common->counter, counted);
    pthread_barrier_wait(&common->barrier);
}

/* Of this variant each rank keeps the head and only its own slot, and its neighbour's, mapped. */
static void keep_part(struct common *common)
{
    const size_t page = 4096;
    size_t mine = offsetof(struct common, slots[test_rank]) / page * page;
    size_t end = (offsetof(struct common, slots[test_rank]) + SLOT + page - 1) / page * page;
    size_t whole = (sizeof(struct common) + page - 1) / page * page;
    if (mine > page)
        CHECK_EQ(munmap((char *)common + page, mine - page), 0);
    if (end < whole)
        CHECK_EQ(munmap((char *)common + end, whole - end), 0);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "unlinked";
    struct common *common;
    int parts = !strcmp(how, "parts");

    test_start(&argc, &argv);
    common = make(how);
    if (test_rank == 0) {
        pthread_mutexattr_t mutex;
        pthread_barrierattr_t barrier;
        pthread_mutexattr_init(&mutex);
        pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(&common->mutex, &mutex);
        pthread_barrierattr_init(&barrier);
        pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&common->barrier, &barrier, (unsigned)test_size);
        common->counter = 0;
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    exchange(common, 100, SLOTS * ROUNDS);
    if (parts)
        keep_part(common);

    cut();

    test_verify(common->slots[test_rank], SLOT, 100 + (uint32_t)test_rank);
    if (!parts) {
        for (int r = 0; r < SLOTS; r++)
            test_verify(common->slots[r], SLOT, 100 + (uint32_t)r);
        pthread_barrier_wait(&common->barrier);
        exchange(common, 200, 2 * SLOTS * ROUNDS);
    } else {
        pthread_barrier_wait(&common->barrier);
        CHECK_EQ(__atomic_add_fetch(&common->counter, 0, __ATOMIC_SEQ_CST), SLOTS * ROUNDS);
    }
    if (segment >= 0) {
        struct shmid_ds facts;
        CHECK_EQ(shmctl(segment, IPC_STAT, &facts), 0);
        CHECK_EQ(facts.shm_nattch, SLOTS);
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK_EQ(shmdt(common), 0);
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (test_rank == 0 && !strcmp(how, "segment_key"))
            CHECK_EQ(shmctl(segment, IPC_RMID, NULL), 0);
        else if (test_rank == 0)
            CHECK(shmctl(segment, IPC_STAT, &facts) != 0, "the segment outlives its last user");
    }
    if (test_rank == 0 && !strcmp(how, "named"))
        CHECK_EQ(shm_unlink(name), 0);
    return test_finish("ranks");
}

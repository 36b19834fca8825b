//#Ranks: 2
//#Cut: loop
//#Shows: buffers that are sent, given back in every way in which a program can do that, and are at the same address again with other pages: what arrives is what is there now
#include "../stasis_test.h"

#include <errno.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { LENGTH = 4 * 4096, CYCLES = 60, STEPS = 20, WAYS = 6 };

static unsigned char *place, *other, *heap, *segment;
static int id;
static volatile sig_atomic_t signals, too_early;
static __thread volatile int own = 42;

/* For REMAPPED_SIGNALS, which is set under Stasis only. Code of the MPI library, at 16 TiB and above, is not
 * interrupted while it hears of memory that this program gives back. The handler itself gives some back. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    const ucontext_t *interrupted = context;
    const int error = errno;
    (void)number, (void)info;
    signals++;
    too_early += own != 42 || (unsigned long long)interrupted->uc_mcontext.gregs[REG_RIP] >= 1ull << 44;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || munmap(page, 4096) != 0)
        _exit(4);
    errno = error;
}

static void map_at(unsigned char *at)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    CHECK(mmap(at, LENGTH, PROT_READ | PROT_WRITE, flags, -1, 0) == at, "mmap");
}

/* Other pages in the place of those of the last cycle; the address of the buffer. */
static unsigned char *replace(int way)
{
    switch (way) {
    case 0:
        CHECK_EQ(munmap(place, LENGTH), 0);
        map_at(place);
        return place;
    case 1:
        map_at(place);
        return place;
    case 2:
        CHECK_EQ(madvise(place, LENGTH, MADV_DONTNEED), 0);
        return place;
    case 3:
        /* The pages of the other place come here. UCX's own function in the place of mremap loses the new address. */
        CHECK(syscall(SYS_mremap, other, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, place) == (long)place, "mremap");
        map_at(other);
        return place;
    case 4:
        /* Where the C library has taken what is behind it, the heap's end is no longer ours. */
        if (sbrk(0) == heap + LENGTH) {
            CHECK(sbrk(-LENGTH) == heap + LENGTH, "sbrk");
            CHECK(sbrk(LENGTH) == heap, "sbrk");
        }
        return heap;
    default:
        CHECK_EQ(shmctl(id, IPC_RMID, NULL), 0);
        void *held;
        do {
            /* No image has a segment that is attached nowhere: after a restart this one may be missing. */
            id = shmget(IPC_PRIVATE, LENGTH, 0600);
            held = shmat(id, NULL, 0);
            CHECK(held != (void *)-1 || errno == EINVAL || errno == EIDRM, "shmat");
        } while (held == (void *)-1);
        CHECK_EQ(shmdt(segment), 0);
        CHECK(shmat(id, segment, 0) == segment, "shmat");
        CHECK_EQ(shmdt(held), 0);
        return segment;
    }
}

static void fill(unsigned char *bytes, unsigned seed)
{
    for (int i = 0; i < LENGTH; i++)
        bytes[i] = (unsigned char)((seed += 2654435769u) >> 24);
}

/* Twice, so that a registration can be used again. */
static void give(unsigned seed, int way)
{
    unsigned char *bytes = replace(way);
    for (int turn = 0; turn < 2; turn++) {
        fill(bytes, seed + (unsigned)turn);
        MPI_OK(MPI_Send(bytes, LENGTH, MPI_BYTE, 1 - test_rank, turn, MPI_COMM_WORLD));
    }
}

static void take(unsigned seed, int way)
{
    static unsigned char expected[LENGTH];
    unsigned char *bytes = replace(way);
    for (int turn = 0; turn < 2; turn++) {
        fill(expected, seed + (unsigned)turn);
        MPI_OK(MPI_Recv(bytes, LENGTH, MPI_BYTE, 1 - test_rank, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(memcmp(bytes, expected, LENGTH) == 0, "message %u, way %d has other bytes", seed, way);
    }
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    const char *wanted = getenv("REMAPPED_STEPS");
    const int steps = wanted ? atoi(wanted) : STEPS;
    if (getenv("REMAPPED_SIGNALS")) {
        const struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
        CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    }
    place = mmap(NULL, 4 * LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    other = place + 2 * LENGTH;
    heap = sbrk(LENGTH);
    id = shmget(IPC_PRIVATE, LENGTH, 0600);
    segment = shmat(id, NULL, 0);
    CHECK(place != MAP_FAILED && heap != (void *)-1 && segment != (void *)-1, "no memory");
    for (int step = 0; cut_more(step, steps, MPI_COMM_WORLD); step++) {
        for (int cycle = 0; cycle < CYCLES; cycle++) {
            const unsigned seed = (unsigned)(step * CYCLES + cycle) * 7919u;
            if (cycle % 2 == test_rank)
                give(seed, cycle / 2 % WAYS);
            else
                take(seed, cycle / 2 % WAYS);
        }
    }
    CHECK_EQ(shmctl(id, IPC_RMID, NULL), 0);
    CHECK_EQ(too_early, 0);
    if (getenv("REMAPPED_SIGNALS"))
        fprintf(stderr, "remapped: %d signals\n", (int)signals);
    test_add(&test_rank, sizeof test_rank);
    return test_finish("remapped");
}

/* What writing to files takes: before there is a checkpoint, right after it (what is overwritten is noted first then,
 * so that a restart can undo it), and once more, when all that is overwritten was noted. Two ranks share each file and
 * write to their own halves; what the slower one takes counts. Prints nanoseconds for each write, of the clock and of
 * the processor, for a busy machine takes the clock's as long as it likes. It waits for its checkpoint as programs of
 * tests do (`stasis_test.h`). */
#include "../stasis_test.h"

enum {
    BLOCK = 4096,
    BLOCKS = 32768, /* of a rank in a file: 128 MiB */
    WRITES = 4096,  /* 16 MiB */
    PIECE = 1 << 20,
    PIECES = 64,
};

static unsigned char *data;
static MPI_File shared, grown;
static int field, log_file;
static MPI_Offset end; /* of what was appended */

/* Each block once, in an order without neighbours. */
static MPI_Offset at_random(int i)
{
    return ((MPI_Offset)test_rank * BLOCKS + (i * 12289LL + 7) % BLOCKS) * BLOCK;
}

static void mpi_random(int i)
{
    MPI_OK(MPI_File_write_at(shared, at_random(i), data, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void own_random(int i)
{
    CHECK_EQ(pwrite(field, data, BLOCK, at_random(i)), BLOCK);
}

static void mpi_append(int i)
{
    const MPI_Offset at = end + (2 * i + test_rank) * (MPI_Offset)BLOCK;
    MPI_OK(MPI_File_write_at(grown, at, data, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE));
}

static void own_append(int i)
{
    (void)i;
    CHECK_EQ(write(log_file, data, BLOCK), BLOCK);
}

/* As IOR writes: one long stretch of each rank in pieces of 1 MiB, all together. */
static void mpi_stretch(int i)
{
    const MPI_Offset at = ((MPI_Offset)test_rank * PIECES + i) * PIECE;
    MPI_OK(MPI_File_write_at_all(shared, at, data, PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
}

/* What no journal can do without: what is there is read, and written to another file. */
static int copies;
static unsigned char *old;

static void by_hand(MPI_Offset at, int n)
{
    CHECK_EQ(pread(field, old, n, at), n);
    CHECK_EQ(write(copies, old, n), n);
    CHECK_EQ(pwrite(field, data, n, at), n);
}

static void floor_random(int i) { by_hand(at_random(i), BLOCK); }

static void floor_stretch(int i) { by_hand(((MPI_Offset)test_rank * PIECES + i) * PIECE, PIECE); }

struct kind {
    const char *name;
    void (*write)(int);
    int times;
};

static const struct kind KINDS[] = {
    {"mpi_random", mpi_random, WRITES}, {"own_random", own_random, WRITES}, {"mpi_append", mpi_append, WRITES},
    {"own_append", own_append, WRITES}, {"mpi_stretch", mpi_stretch, PIECES},
};

static const struct kind FLOORS[] = {
    {"floor_random", floor_random, WRITES},
    {"floor_stretch", floor_stretch, PIECES},
};

static void settle(void)
{
    MPI_OK(MPI_File_sync(shared));
    MPI_OK(MPI_File_sync(grown));
    CHECK_EQ(fsync(field) | fsync(log_file), 0);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static double processor(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void measure(const struct kind *kind, const char *when)
{
    settle();
    double took[2] = {-MPI_Wtime(), -processor()}, longest[2];
    for (int i = 0; i < kind->times; i++)
        kind->write(i);
    took[0] += MPI_Wtime();
    took[1] += processor();
    MPI_OK(MPI_Reduce(took, longest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD));
    const double unit = 1e9 / kind->times;
    if (test_rank == 0)
        printf("%s_%s %.1f %.1f\n", kind->name, when, longest[0] * unit, longest[1] * unit);
}

static void measure_all(const char *when)
{
    for (size_t n = 0; n < sizeof KINDS / sizeof KINDS[0]; n++)
        measure(&KINDS[n], when);
    end += 2 * WRITES * (MPI_Offset)BLOCK;
}

static void fill(void)
{
    for (int i = 0; i < BLOCKS * (BLOCK / 1024) / 1024; i++) {
        const MPI_Offset at = (MPI_Offset)test_rank * BLOCKS * BLOCK + i * (MPI_Offset)PIECE;
        MPI_OK(MPI_File_write_at(shared, at, data, PIECE, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_EQ(pwrite(field, data, PIECE, at), PIECE);
    }
    settle();
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    char name[32];
    data = malloc(PIECE);
    old = malloc(PIECE);
    memset(old, 1, PIECE);
    test_fill(data, PIECE, 7);
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "shared.dat", amode, MPI_INFO_NULL, &shared));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "grown.dat", amode, MPI_INFO_NULL, &grown));
    field = open("field.dat", O_CREAT | O_RDWR, 0644);
    snprintf(name, sizeof name, "log.%d", test_rank);
    log_file = open(name, O_CREAT | O_WRONLY, 0644);
    snprintf(name, sizeof name, "copies.%d", test_rank);
    copies = open(name, O_CREAT | O_WRONLY, 0644);
    CHECK(field >= 0 && log_file >= 0 && copies >= 0);
    fill();
    measure_all("before");
    cut();
    measure_all("first");
    measure_all("again");
    for (size_t n = 0; n < sizeof FLOORS / sizeof FLOORS[0]; n++)
        measure(&FLOORS[n], "by_hand");
    MPI_OK(MPI_File_close(&grown));
    MPI_OK(MPI_File_close(&shared));
    MPI_Finalize();
    return 0;
}

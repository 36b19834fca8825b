//#Ranks: 2
//#Cut: loop
//#Modes: restart, migrate
//#Variant: zeros
//#Variant: random
//#Variant: fields
//#Shows: memory that is all zeros, noise, or a floating-point field, of which 1 % changes at each step
/* Arguments: the kind of memory, and MiB of it (8). With $STASIS_TEST_STEP, step number s is done when
 * the file $STASIS_TEST_STEP.<s> is there, and announced when it is done, as that of rank
 * `rank + s * size` (`cargo xtask bench images`). With $FOOTPRINT_SENDS, each step also sends a block of memory that
 * the MPI library's device changes meanwhile (`examples/tools/registering.c`), and that nobody else writes to. */
#include "../stasis_test.h"

enum { WORDS = 512, PARTS = 100, WAVE = 8192, BLOCK = 16 * WORDS };

static double wave[WAVE];
static char kind;
/* The block that is sent, and its first word as the device has left it. */
static uint64_t *block, left;

static uint64_t noise(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* What stands at a place whose page has changed so often. */
static uint64_t word(size_t place, uint64_t changes)
{
    uint64_t at = place + ((uint64_t)test_rank << 40), bits;
    double value;
    switch (kind) {
    case 'z': return 0;
    case 'r': return noise(at + (changes << 48));
    }
    value = wave[place % WAVE] * (1 + 1e-9 * (double)(noise(at) >> 40)) + (double)changes;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* How often a page has changed after so many steps: in those whose number ends like its own. */
static uint64_t changes(size_t page, uint64_t steps)
{
    uint64_t first = page % PARTS ? page % PARTS : PARTS;
    return (steps + PARTS - first) / PARTS;
}

static void write_page(uint64_t *memory, size_t page, uint64_t steps)
{
    for (size_t i = page * WORDS; i < (page + 1) * WORDS; i++)
        memory[i] = word(i, changes(page, steps));
}

static void wait_for(int step)
{
    const char *prefix = getenv("STASIS_TEST_STEP");
    struct timespec pause = {0, 1000000};
    char path[4096];
    if (!prefix)
        return;
    snprintf(path, sizeof path, "%s.%d", prefix, step);
    while (access(path, F_OK) != 0 && !cut_open())
        nanosleep(&pause, NULL);
}

static void begin_sends(void)
{
    block = aligned_alloc(4096, BLOCK * sizeof *block);
    CHECK(block != NULL);
    for (size_t i = 0; i < BLOCK; i++)
        block[i] = noise(i + ((uint64_t)test_rank << 40));
    left = block[0];
}

/* Twice, so that the library can use a registration again. */
static void send_block(void)
{
    static uint64_t got[BLOCK];
    const int other = 1 - test_rank, bytes = sizeof got;
    for (int turn = 0; block && turn < 2; turn++) {
        CHECK(block[0] == left, "what the device has written is lost");
        for (int sender = 0; sender < 2; sender++) {
            if (sender == test_rank)
                MPI_OK(MPI_Send(block, bytes, MPI_BYTE, other, turn, MPI_COMM_WORLD));
            else
                MPI_OK(MPI_Recv(got, bytes, MPI_BYTE, other, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        /* The last step may be over a library without such a device. */
        CHECK(block[0] != left || cut_open(), "the device has not written");
        left = block[0];
        for (size_t i = 1; i < BLOCK; i++)
            CHECK(got[i] == noise(i + ((uint64_t)other << 40)), "word %zu of the block", i);
    }
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    kind = argc > 1 ? argv[1][0] : 'f';
    size_t pages = (argc > 2 ? strtoul(argv[2], NULL, 10) : 8) * 256;
    for (int i = 0; i < WAVE; i++)
        wave[i] = 1e-7 * i * (WAVE - i);
    int stepped = getenv("STASIS_TEST_STEP") != NULL;
    uint64_t *memory = malloc(pages * WORDS * sizeof *memory);
    CHECK(memory != NULL);
    for (size_t page = 0; page < pages; page++)
        write_page(memory, page, 0);
    if (getenv("FOOTPRINT_SENDS"))
        begin_sends();
    if (stepped)
        cut_announce();

    int step = 0;
    for (; cut_more(step, stepped ? 0 : 200, MPI_COMM_WORLD); step++) {
        wait_for(step + 1);
        for (size_t page = (size_t)(step + 1) % PARTS; page < pages; page += PARTS)
            write_page(memory, page, (uint64_t)step + 1);
        send_block();
        if (stepped)
            cut_announce_as(test_rank + (step + 1) * test_size);
    }
    CHECK(!block || block[0] == left, "what the device has written is lost");
    for (size_t i = 0; i < pages * WORDS; i++)
        CHECK(memory[i] == word(i, changes(i / WORDS, (uint64_t)step)), "word %zu", i);
    return test_finish_loop("footprint");
}

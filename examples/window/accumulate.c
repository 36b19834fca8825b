//#Shows: operations that change a target atomically, of elements of every sort (with gaps, too), in every layout, at ranks with units of their own; by all at the same place at a time, around the cut
//#Cut: hold
//#Compare: none
#include "../stasis_test.h"
#include <complex.h>

enum { MOST = 40, START = 64, ROUNDS = 20, PLACE = 2 * MOST * 32, PLACES = 54 };

#define PLAIN(name, type)                                                     \
    static void set_##name(void *at, int value) { *(type *)at = value; }      \
    static int get_##name(const void *at) { return (int)*(const type *)at; }
#define PAIR(name, type)                                                      \
    struct name { type a; int b; };                                           \
    static void set_##name(void *at, int value)                               \
    {                                                                         \
        ((struct name *)at)->a = value;                                       \
        ((struct name *)at)->b = value + 1;                                   \
    }                                                                         \
    static int get_##name(const void *at)                                     \
    {                                                                         \
        const struct name *pair = at;                                         \
        return pair->b == (int)pair->a + 1 ? (int)pair->a : -1;               \
    }

PLAIN(int, int)
PLAIN(long, long)
PLAIN(char, signed char)
PLAIN(double, double)
PLAIN(long_double, long double)
PAIR(two_int, int)
PAIR(float_int, float)
PAIR(short_int, short)
PAIR(double_int, double)
PAIR(long_double_int, long double)

static void set_complex(void *at, int value) { *(float complex *)at = value + value * I; }
static int get_complex(const void *at)
{
    const float complex value = *(const float complex *)at;
    return crealf(value) == cimagf(value) ? (int)crealf(value) : -1;
}

struct sort {
    MPI_Datatype type;
    size_t size;
    void (*set)(void *at, int value);
    int (*get)(const void *at);
    int is_pair;
};

static MPI_Win window;
static char *memory;
static int units[] = {1, 16};

static MPI_Aint displacement(int rank, MPI_Aint bytes) { return bytes / units[rank]; }

/* So many elements: side by side, as one of a datatype of so many, or every other one. */
static int lay_out(int layout, int count, MPI_Datatype element, MPI_Datatype *type)
{
    if (layout == 0) {
        *type = element;
        return count;
    }
    if (layout == 1)
        MPI_OK(MPI_Type_contiguous(count, element, type));
    else
        MPI_OK(MPI_Type_vector(count, 1, 2, element, type));
    MPI_OK(MPI_Type_commit(type));
    return 1;
}

static void release(int layout, MPI_Datatype *type)
{
    if (layout != 0)
        MPI_OK(MPI_Type_free(type));
}

static void fill(const struct sort *sort, char *at, int layout, int count, int first)
{
    for (int i = 0; i < count; i++)
        sort->set(at + i * (layout == 2 ? 2 : 1) * sort->size, first + i);
}

static void expect(const struct sort *sort, const char *at, int layout, int count, int first, int step)
{
    for (int i = 0; i < count; i++)
        CHECK_EQ(sort->get(at + i * (layout == 2 ? 2 : 1) * sort->size), first + step * i);
}

enum phase { FILL, CHANGE, CHECK_IT };

/* One operation of every rank on the one `shift` ranks on, at a place of its own. */
static void change(enum phase phase, const struct sort *sort, int place, int from, int to, int count, int way, int shift)
{
    static char origins[PLACES][PLACE] __attribute__((aligned(16)));
    static char results[PLACES][PLACE] __attribute__((aligned(16)));
    char *origin = origins[place], *result = results[place], *target = memory + START + place * PLACE;
    const int rank = (test_rank + shift) % test_size;
    const MPI_Aint at = displacement(rank, START + place * PLACE);
    MPI_Request request;
    MPI_Datatype own, other;
    if (phase == FILL) {
        fill(sort, origin, from, count, 30);
        fill(sort, result, from, count, 90);
        fill(sort, target, to, count, 10);
        return;
    }
    if (phase == CHECK_IT) {
        if (way != 0)
            expect(sort, result, from, count, 10, 1);
        if (way == 0 && !sort->is_pair)
            expect(sort, target, to, count, 40, 2);
        else
            expect(sort, target, to, count, way == 2 ? 10 : 30, 1);
        return;
    }
    const int owns = lay_out(from, count, sort->type, &own);
    const int others = lay_out(to, count, sort->type, &other);
    if (way == 0) {
        const MPI_Op op = sort->is_pair ? MPI_MAXLOC : MPI_SUM;
        MPI_OK(MPI_Accumulate(origin, owns, own, rank, at, others, other, op, window));
    } else if (way == 1) {
        MPI_OK(MPI_Get_accumulate(origin, owns, own, result, owns, own, rank, at, others, other, MPI_REPLACE, window));
    } else {
        MPI_OK(MPI_Rget_accumulate(NULL, 0, MPI_INT, result, owns, own, rank, at, others, other, MPI_NO_OP, window, &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        expect(sort, result, from, count, 10, 1);
    }
    release(from, &own);
    release(to, &other);
}

static void every_layout(enum phase phase, const struct sort *sort, int shift)
{
    int place = 0;
    for (int from = 0; from < 3; from++)
        for (int to = 0; to < 3; to++)
            for (int count = 1; count <= MOST; count += MOST - 1)
                for (int way = 0; way < 3; way++)
                    change(phase, sort, place++, from, to, count, way, shift);
}

static void every_sort(int shift)
{
    const struct sort sorts[] = {
        {MPI_INT, sizeof(int), set_int, get_int, 0},
        {MPI_LONG, sizeof(long), set_long, get_long, 0},
        {MPI_SIGNED_CHAR, 1, set_char, get_char, 0},
        {MPI_DOUBLE, sizeof(double), set_double, get_double, 0},
        {MPI_LONG_DOUBLE, sizeof(long double), set_long_double, get_long_double, 0},
        {MPI_C_FLOAT_COMPLEX, sizeof(float complex), set_complex, get_complex, 0},
        {MPI_2INT, sizeof(struct two_int), set_two_int, get_two_int, 1},
        {MPI_FLOAT_INT, sizeof(struct float_int), set_float_int, get_float_int, 1},
        {MPI_SHORT_INT, sizeof(struct short_int), set_short_int, get_short_int, 1},
        {MPI_DOUBLE_INT, sizeof(struct double_int), set_double_int, get_double_int, 1},
        {MPI_LONG_DOUBLE_INT, sizeof(struct long_double_int), set_long_double_int, get_long_double_int, 1},
    };
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++) {
        every_layout(FILL, &sorts[i], shift);
        MPI_OK(MPI_Win_fence(0, window));
        every_layout(CHANGE, &sorts[i], shift);
        MPI_OK(MPI_Win_fence(0, window));
        every_layout(CHECK_IT, &sorts[i], shift);
    }
}

/* Everyone adds one to all of rank 0's numbers, by every function by turns; returns how often one has. */
static int add_together(MPI_Datatype type, const void *ones, void *before, size_t bytes)
{
    const MPI_Aint at = displacement(0, START);
    MPI_Datatype every_other;
    int times = 0;
    MPI_OK(MPI_Type_vector(4, 1, 2, type, &every_other));
    MPI_OK(MPI_Type_commit(&every_other));
    for (int round = 0; round < ROUNDS; round++, times++) {
        MPI_OK(MPI_Accumulate(ones, 8, type, 0, at, 8, type, MPI_SUM, window));
        MPI_OK(MPI_Get_accumulate(ones, 4, type, before, 4, type, 0, at, 1, every_other, MPI_SUM, window));
        MPI_OK(MPI_Win_flush(0, window));
        for (int i = 1; i < 8; i += 2)
            MPI_OK(MPI_Fetch_and_op(ones, before, type, 0, displacement(0, START + i * bytes), MPI_SUM, window));
        MPI_OK(MPI_Win_flush(0, window));
    }
    MPI_OK(MPI_Type_free(&every_other));
    return 2 * times;
}

/* A lock of one byte, under which everyone adds with what is not atomic. */
static void swap_bytes(void)
{
    const char free = 0, taken = 1;
    const MPI_Aint lock = displacement(0, START + 1024), at = displacement(0, START + 1040);
    for (int round = 0; round < 5; round++) {
        char before = taken;
        int sum;
        while (before == taken) {
            MPI_OK(MPI_Compare_and_swap(&taken, &free, &before, MPI_BYTE, 0, lock, window));
            MPI_OK(MPI_Win_flush(0, window));
        }
        MPI_OK(MPI_Get(&sum, 1, MPI_INT, 0, at, 1, MPI_INT, window));
        MPI_OK(MPI_Win_flush(0, window));
        sum++;
        MPI_OK(MPI_Put(&sum, 1, MPI_INT, 0, at, 1, MPI_INT, window));
        MPI_OK(MPI_Win_flush(0, window));
        MPI_OK(MPI_Accumulate(&free, 1, MPI_BYTE, 0, lock, 1, MPI_BYTE, MPI_REPLACE, window));
        MPI_OK(MPI_Win_flush(0, window));
    }
}

static void together(void)
{
    double numbers[] = {1, 1, 1, 1, 1, 1, 1, 1}, before[8];
    int integers[] = {1, 1, 1, 1, 1, 1, 1, 1}, were[8];
    int times;
    memset(memory, 0, START + 2048);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Win_lock_all(0, window));
    times = add_together(MPI_DOUBLE, numbers, before, sizeof *numbers);
    swap_bytes();
    MPI_OK(MPI_Win_unlock_all(window));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 8 && test_rank == 0; i++)
        CHECK_EQ((int)((double *)(memory + START))[i], times * test_size);
    if (test_rank == 0)
        CHECK_EQ(*(int *)(memory + START + 1040), 5 * test_size);
    memset(memory, 0, START + 2048);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Win_lock_all(0, window));
    times = add_together(MPI_INT, integers, were, sizeof *integers);
    MPI_OK(MPI_Win_unlock_all(window));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 8 && test_rank == 0; i++)
        CHECK_EQ(((int *)(memory + START))[i], times * test_size);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    const MPI_Aint bytes = START + PLACES * PLACE;
    MPI_OK(MPI_Win_allocate(bytes, units[test_rank], MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    every_sort(1);
    together();
    cut();
    together();
    every_sort(1);
    every_sort(0);
    test_add(memory, START);
    MPI_OK(MPI_Win_free(&window));
    return test_finish("accumulate");
}

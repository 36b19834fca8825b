//#Ranks: 3
//#Cut: hold
//#Shows: windows between fences: put, get, accumulate and their relatives, over memory of the application and of the window
//#Variant: create
//#Variant: allocate
//#Variant: dynamic
//#Variant: open
#include "../stasis_test.h"

enum { N = 64 };

static MPI_Win window;
static int *memory;
static MPI_Aint origin_of[8];

/* Where word `place` of `rank` lies for MPI_Put and the like. */
static MPI_Aint at(int rank, int place)
{
    return origin_of[rank] + (origin_of[rank] ? (MPI_Aint)sizeof(int) : 1) * place;
}

static void make(int argc, char **argv)
{
    if (test_is(argc, argv, "allocate")) {
        MPI_OK(MPI_Win_allocate(N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    } else if (test_is(argc, argv, "dynamic")) {
        MPI_Aint own;
        memory = malloc(N * sizeof(int));
        MPI_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window));
        MPI_OK(MPI_Win_attach(window, memory, N * sizeof(int)));
        MPI_OK(MPI_Get_address(memory, &own));
        MPI_OK(MPI_Allgather(&own, 1, MPI_AINT, origin_of, 1, MPI_AINT, MPI_COMM_WORLD));
    } else {
        memory = malloc(N * sizeof(int));
        MPI_OK(MPI_Win_create(memory, N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    }
    for (int i = 0; i < N; i++)
        memory[i] = 1000 * test_rank + i;
}

static void attributes(int argc, char **argv)
{
    int found, *unit, *flavor, *model;
    void *base;
    MPI_Aint *size;
    MPI_OK(MPI_Win_get_attr(window, MPI_WIN_BASE, &base, &found));
    MPI_OK(MPI_Win_get_attr(window, MPI_WIN_SIZE, &size, &found));
    MPI_OK(MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, &unit, &found));
    MPI_OK(MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, &flavor, &found));
    MPI_OK(MPI_Win_get_attr(window, MPI_WIN_MODEL, &model, &found));
    if (test_is(argc, argv, "dynamic")) {
        CHECK_EQ(*flavor, MPI_WIN_FLAVOR_DYNAMIC);
    } else {
        CHECK(base == memory, "another base");
        CHECK_EQ(*size, N * sizeof(int));
        CHECK_EQ(*unit, sizeof(int));
        CHECK_EQ(*flavor, test_is(argc, argv, "allocate") ? MPI_WIN_FLAVOR_ALLOCATE : MPI_WIN_FLAVOR_CREATE);
    }
    CHECK(*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE, "no model");
}

/* One round of everything; `round` makes the values differ. */
static void exchange(int round)
{
    int next = (test_rank + 1) % test_size, before = (test_rank + test_size - 1) % test_size;
    int put[4] = {round, test_rank, 7, 8}, got[2], one = 1, old = -1, expected = 1000 * before + 9, swapped = -1;
    MPI_Datatype pair;
    MPI_OK(MPI_Type_vector(2, 1, 3, MPI_INT, &pair));
    MPI_OK(MPI_Type_commit(&pair));
    memory[9] = 1000 * test_rank + 9;
    memory[5] = 0;
    MPI_OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, window));
    MPI_OK(MPI_Put(put, 4, MPI_INT, next, at(next, 20), 4, MPI_INT, window));
    MPI_OK(MPI_Put(put, 2, MPI_INT, next, at(next, 30), 1, pair, window));
    MPI_OK(MPI_Get(got, 2, MPI_INT, before, at(before, 0), 2, MPI_INT, window));
    for (int rank = 0; rank < test_size; rank++)
        MPI_OK(MPI_Accumulate(&one, 1, MPI_INT, rank, at(rank, 5), 1, MPI_INT, MPI_SUM, window));
    MPI_OK(MPI_Put(put, 4, MPI_INT, MPI_PROC_NULL, 0, 4, MPI_INT, window));
    MPI_OK(MPI_Win_fence(0, window));
    CHECK_EQ(memory[20], round);
    CHECK_EQ(memory[21], before);
    CHECK_EQ(memory[30], round);
    CHECK_EQ(memory[33], before);
    CHECK_EQ(got[1], 1000 * before + 1);
    CHECK_EQ(memory[5], test_size);
    MPI_OK(MPI_Win_fence(0, window));
    MPI_OK(MPI_Fetch_and_op(&one, &old, MPI_INT, next, at(next, 5), MPI_SUM, window));
    MPI_OK(MPI_Compare_and_swap(&round, &expected, &swapped, MPI_INT, before, at(before, 9), window));
    MPI_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window));
    CHECK_EQ(old, test_size);
    CHECK_EQ(swapped, expected);
    CHECK_EQ(memory[5], test_size + 1);
    CHECK_EQ(memory[9], round);
    test_add(memory, N * sizeof(int));
    MPI_OK(MPI_Type_free(&pair));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    make(argc, argv);
    MPI_OK(MPI_Win_set_name(window, "shown"));
    exchange(1);
    if (test_is(argc, argv, "open")) {
        /* Operations of an epoch that is open at the cut. */
        int next = (test_rank + 1) % test_size, value = 77 + test_rank, got = -1;
        MPI_OK(MPI_Win_fence(0, window));
        MPI_OK(MPI_Put(&value, 1, MPI_INT, next, at(next, 40), 1, MPI_INT, window));
        MPI_OK(MPI_Get(&got, 1, MPI_INT, next, at(next, 3), 1, MPI_INT, window));
        cut();
        MPI_OK(MPI_Win_fence(0, window));
        CHECK_EQ(memory[40], 77 + (test_rank + test_size - 1) % test_size);
        CHECK_EQ(got, 1000 * next + 3);
    } else {
        cut();
    }
    exchange(2);
    attributes(argc, argv);
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_OK(MPI_Win_get_name(window, name, &length));
    CHECK(strcmp(name, "shown") == 0, "another name: %s", name);
    if (test_is(argc, argv, "dynamic"))
        MPI_OK(MPI_Win_detach(window, memory));
    MPI_OK(MPI_Win_free(&window));
    CHECK(window == MPI_WIN_NULL, "not freed");
    return test_finish("fence");
}

//#Ranks: 3
//#Shows: a checkpoint is taken while two of three ranks make a window, free it or wait in a fence, and the third stays outside
//#Cut: hold
//#Variant: create; matrix=full; modes=plain, continue, restart, migrate, cycle, ten
//#Variant: allocate
//#Variant: allocate_shared
//#Variant: dynamic
//#Variant: fence; modes=plain, continue, restart, migrate, cycle
//#Variant: free; modes=plain, continue, restart, migrate, cycle
#include "../late.h"

enum { N = 16 };

static MPI_Win window;
static int own[N], *memory = own;

static int value(int rank, int i) { return 100 * rank + i; }

static void make(const char *name)
{
    MPI_Aint bytes = N * sizeof(int);
    if (!strcmp(name, "allocate")) {
        MPI_OK(MPI_Win_allocate(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    } else if (!strcmp(name, "allocate_shared")) {
        MPI_OK(MPI_Win_allocate_shared(bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    } else if (!strcmp(name, "dynamic")) {
        MPI_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window));
        MPI_OK(MPI_Win_attach(window, memory, bytes));
    } else {
        MPI_OK(MPI_Win_create(memory, bytes, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    }
}

int main(int argc, char **argv)
{
    int sent[N];
    MPI_Aint at = 0, places[LATE_MOST];
    test_start(&argc, &argv);
    int r = test_rank, p = test_size, to = (r + 1) % p, from = (r + p - 1) % p;
    const char *name = argc > 1 ? argv[1] : "create";
    int is_made = !strcmp(name, "fence") || !strcmp(name, "free");
    for (int i = 0; i < N; i++)
        sent[i] = value(r, i);
    if (is_made) {
        make(name);
        MPI_OK(MPI_Win_fence(0, window));
        MPI_OK(MPI_Put(sent, N / 2, MPI_INT, to, 0, N / 2, MPI_INT, window));
    }
    if (!strcmp(name, "free"))
        MPI_OK(MPI_Win_fence(0, window));
    late_begin();
    if (!is_made) {
        make(name);
        MPI_OK(MPI_Get_address(memory, &at));
        MPI_OK(MPI_Allgather(&at, 1, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD));
        at = strcmp(name, "dynamic") ? 0 : places[to];
        MPI_OK(MPI_Win_fence(0, window));
        MPI_OK(MPI_Put(sent, N / 2, MPI_INT, to, at, N / 2, MPI_INT, window));
    }
    if (strcmp(name, "free"))
        MPI_OK(MPI_Win_fence(0, window));
    for (int i = 0; i < N / 2; i++)
        CHECK_EQ(memory[i], value(from, i));
    test_add(memory, N / 2 * sizeof(int));
    if (!strcmp(name, "dynamic"))
        MPI_OK(MPI_Win_detach(window, memory));
    MPI_OK(MPI_Win_free(&window));
    CHECK(window == MPI_WIN_NULL);
    late_end();
    return test_finish(name);
}

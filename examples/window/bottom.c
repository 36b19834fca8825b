//#Ranks: 2
//#Cut: hold
//#Compare: none
//#Shows: what lies at MPI_BOTTOM, with addresses in the datatype: accumulated into a window, replaced by what is received, packed and unpacked, before and after the cut. MPICH 4.0 itself packs nothing from there
#include "../stasis_test.h"

enum { N = 5 };
static int mine[2 * N], got[2 * N], window_memory[2 * N];

/* Every other integer, by its address. */
static MPI_Datatype at(int *place)
{
    MPI_Datatype type;
    MPI_Aint addresses[N];
    for (int i = 0; i < N; i++)
        MPI_OK(MPI_Get_address(place + 2 * i, &addresses[i]));
    MPI_OK(MPI_Type_create_hindexed_block(N, 1, addresses, MPI_INT, &type));
    MPI_OK(MPI_Type_commit(&type));
    return type;
}

static void fill(int *place, int from)
{
    for (int i = 0; i < 2 * N; i++)
        place[i] = i % 2 ? -1 : from + i;
}

static void expect(const int *place, int from)
{
    for (int i = 0; i < 2 * N; i++)
        CHECK_EQ(place[i], i % 2 ? -1 : from + i);
}

static void use(MPI_Win window, MPI_Datatype from, MPI_Datatype to)
{
    const int other = 1 - test_rank;
    char packed[256];
    int position = 0, length;
    MPI_Datatype side_by_side;
    fill(mine, 100 * test_rank);
    memset(window_memory, 0, sizeof window_memory);
    MPI_OK(MPI_Type_contiguous(N, MPI_INT, &side_by_side));
    MPI_OK(MPI_Type_commit(&side_by_side));
    MPI_OK(MPI_Win_fence(0, window));
    MPI_OK(MPI_Accumulate(MPI_BOTTOM, 1, from, other, 0, 1, side_by_side, MPI_SUM, window));
    MPI_OK(MPI_Win_fence(0, window));
    for (int i = 0; i < N; i++)
        CHECK_EQ(window_memory[i], 100 * other + 2 * i);
    MPI_OK(MPI_Type_free(&side_by_side));

    MPI_OK(MPI_Sendrecv_replace(MPI_BOTTOM, 1, from, other, 3, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    expect(mine, 100 * other);

    fill(got, 7);
    MPI_OK(MPI_Pack(MPI_BOTTOM, 1, from, packed, sizeof packed, &position, MPI_COMM_WORLD));
    length = position;
    position = 0;
    MPI_OK(MPI_Unpack(packed, length, &position, MPI_BOTTOM, 1, to, MPI_COMM_WORLD));
    expect(got, 100 * other);
}

int main(int argc, char **argv)
{
    MPI_Win window;
    test_start(&argc, &argv);
    MPI_Datatype from = at(mine), to = at(got);
    MPI_OK(MPI_Win_create(window_memory, sizeof window_memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    use(window, from, to);
    cut();
    use(window, from, to);
    MPI_OK(MPI_Type_free(&from));
    MPI_OK(MPI_Type_free(&to));
    MPI_OK(MPI_Win_free(&window));
    return test_finish("bottom");
}

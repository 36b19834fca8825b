//#Ranks: 2
//#Cut: hold
//#Shows: datatypes whose parents are freed before the cut: extents, envelopes, contents and use after it; darray
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Datatype vector, outer, pairs, darray, blocks, named;
    MPI_Aint lb, extent, true_lb, true_extent;
    int size;
    MPI_OK(MPI_Type_vector(3, 2, 4, MPI_SHORT, &vector));
    MPI_OK(MPI_Type_set_name(vector, "comb"));
    MPI_OK(MPI_Type_create_resized(vector, -2, 40, &outer));
    MPI_OK(MPI_Type_dup(vector, &named));
    MPI_OK(MPI_Type_free(&vector));
    MPI_OK(MPI_Type_commit(&outer));
    MPI_OK(MPI_Type_vector(3, 1, 1, MPI_DOUBLE_INT, &pairs));
    MPI_OK(MPI_Type_commit(&pairs));
    int global[2] = {8, 6}, how[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, grid[2] = {2, 1};
    int args[2] = {2, MPI_DISTRIBUTE_DFLT_DARG};
    MPI_OK(MPI_Type_create_darray(2, test_rank, 2, global, how, args, grid, MPI_ORDER_C, MPI_INT, &darray));
    MPI_OK(MPI_Type_commit(&darray));
    /* Blocks of 19, which is the number of MPI_DISTRIBUTE_DFLT_DARG in the standard's own ABI. */
    int line = 100, cyclic = MPI_DISTRIBUTE_CYCLIC, nineteen = 19, both = 2;
    MPI_OK(MPI_Type_create_darray(2, test_rank, 1, &line, &cyclic, &nineteen, &both, MPI_ORDER_C, MPI_INT, &blocks));
    cut();
    MPI_OK(MPI_Type_get_extent(outer, &lb, &extent));
    CHECK(lb == -2 && extent == 40, "lb %ld, extent %ld", (long)lb, (long)extent);
    MPI_OK(MPI_Type_get_true_extent(outer, &true_lb, &true_extent));
    CHECK(true_lb == 0 && true_extent == 20, "true lb %ld, true extent %ld", (long)true_lb, (long)true_extent);
    MPI_OK(MPI_Type_size(outer, &size));
    CHECK_EQ(size, 12);
    MPI_OK(MPI_Type_get_extent(pairs, &lb, &extent));
    CHECK_EQ(extent, 48);
    MPI_OK(MPI_Type_size(darray, &size));
    CHECK_EQ(size, 4 * 6 * (int)sizeof(int));
    MPI_OK(MPI_Type_size(blocks, &size));
    CHECK_EQ(size, (test_rank ? 43 : 57) * (int)sizeof(int));
    int args_of[8];
    MPI_Datatype element;
    MPI_OK(MPI_Type_get_contents(blocks, 8, 0, 1, args_of, NULL, &element));
    CHECK_EQ(args_of[5], 19);

    int integers, addresses, types, combiner;
    MPI_OK(MPI_Type_get_envelope(outer, &integers, &addresses, &types, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_RESIZED);
    CHECK(integers == 0 && addresses == 2 && types == 1, "%d %d %d", integers, addresses, types);
    MPI_Aint where[2];
    MPI_Datatype inside[1];
    MPI_OK(MPI_Type_get_contents(outer, 0, 2, 1, NULL, where, inside));
    CHECK(where[0] == -2 && where[1] == 40, "%ld %ld", (long)where[0], (long)where[1]);
    int numbers[3];
    MPI_OK(MPI_Type_get_envelope(inside[0], &integers, &addresses, &types, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_VECTOR);
    MPI_Datatype base[1];
    MPI_OK(MPI_Type_get_contents(inside[0], 3, 0, 1, numbers, NULL, base));
    CHECK(numbers[0] == 3 && numbers[1] == 2 && numbers[2] == 4 && base[0] == MPI_SHORT, "contents");
    MPI_OK(MPI_Type_free(&inside[0]));
    MPI_OK(MPI_Type_get_envelope(named, &integers, &addresses, &types, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_DUP);
    MPI_OK(MPI_Type_get_envelope(MPI_DOUBLE, &integers, &addresses, &types, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_NAMED);
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_OK(MPI_Type_get_name(MPI_DOUBLE, name, &length));
    CHECK(strcmp(name, "MPI_DOUBLE") == 0, "'%s'", name);

    /* Use: two combs to the other rank as shorts. */
    short out[80], in[80] = {0};
    for (int i = 0; i < 80; i++)
        out[i] = (short)(i + 1000 * test_rank);
    MPI_OK(MPI_Sendrecv(out, 2, outer, 1 - test_rank, 0, in, 12, MPI_SHORT, 1 - test_rank, 0, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    for (int i = 0; i < 12; i++)
        CHECK_EQ(in[i], 1000 * (1 - test_rank) + i / 6 * 20 + i % 6 / 2 * 4 + i % 2);
    static int field[48], mine[24];
    for (int i = 0; i < 48; i++)
        field[i] = i;
    int position = 0;
    MPI_OK(MPI_Pack(field, 1, darray, mine, sizeof mine, &position, MPI_COMM_WORLD));
    CHECK_EQ(mine[0], 12 * test_rank);
    CHECK_EQ(mine[12], 24 + 12 * test_rank);
    test_add(mine, sizeof mine);
    /* The portable representation is the same everywhere. */
    char external[200];
    MPI_Aint at = 0;
    MPI_OK(MPI_Pack_external("external32", out, 4, MPI_SHORT, external, sizeof external, &at));
    CHECK_EQ(at, 8);
    CHECK_EQ((unsigned char)external[3], (unsigned char)(out[1] & 255));
    MPI_OK(MPI_Type_free(&outer));
    MPI_OK(MPI_Type_free(&named));
    MPI_OK(MPI_Type_free(&pairs));
    MPI_OK(MPI_Type_free(&darray));
    MPI_OK(MPI_Type_free(&blocks));
    return test_finish("datatypes");
}

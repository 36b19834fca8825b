//#Ranks: 4
//#Cut: hold
//#Shows: info objects and groups across the cut
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Info info, copy;
    MPI_Group world, even, odd, range, both, minus;
    int n, flag, length, size, rank, relation, ranks[2] = {0, 2}, triple[1][3] = {{3, 1, -1}};
    char key[MPI_MAX_INFO_KEY], value[100];
    MPI_OK(MPI_Info_create(&info));
    MPI_OK(MPI_Info_set(info, "colour", "blue"));
    MPI_OK(MPI_Info_set(info, "depth", "42"));
    MPI_OK(MPI_Info_set(info, "colour", "green"));
    MPI_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MPI_OK(MPI_Group_incl(world, 2, ranks, &even));
    MPI_OK(MPI_Group_excl(world, 2, ranks, &odd));
    MPI_OK(MPI_Group_range_incl(world, 1, triple, &range));
    cut();
    MPI_OK(MPI_Info_get_nkeys(info, &n));
    CHECK_EQ(n, 2);
    MPI_OK(MPI_Info_get_nthkey(info, 1, key));
    CHECK(strcmp(key, "depth") == 0, "'%s'", key);
    MPI_OK(MPI_Info_get(info, "colour", 99, value, &flag));
    CHECK(flag && strcmp(value, "green") == 0, "'%s'", value);
    MPI_OK(MPI_Info_get_valuelen(info, "depth", &length, &flag));
    CHECK(flag && length == 2, "%d", length);
    MPI_OK(MPI_Info_dup(info, &copy));
    MPI_OK(MPI_Info_delete(copy, "depth"));
    MPI_OK(MPI_Info_get(copy, "depth", 99, value, &flag));
    CHECK_EQ(flag, 0);
    MPI_OK(MPI_Info_free(&copy));
    MPI_OK(MPI_Info_free(&info));
    CHECK(info == MPI_INFO_NULL, "not freed");

    MPI_OK(MPI_Group_rank(even, &rank));
    CHECK_EQ(rank, test_rank % 2 ? MPI_UNDEFINED : test_rank / 2);
    MPI_OK(MPI_Group_size(range, &size));
    CHECK_EQ(size, 3);
    MPI_OK(MPI_Group_rank(range, &rank));
    CHECK_EQ(rank, test_rank == 0 ? MPI_UNDEFINED : 3 - test_rank);
    MPI_OK(MPI_Group_union(even, odd, &both));
    MPI_OK(MPI_Group_compare(both, world, &relation));
    CHECK_EQ(relation, MPI_SIMILAR);
    MPI_OK(MPI_Group_difference(range, odd, &minus));
    MPI_OK(MPI_Group_size(minus, &size));
    CHECK_EQ(size, 1);
    MPI_OK(MPI_Group_intersection(even, odd, &minus));
    CHECK(minus == MPI_GROUP_EMPTY, "not empty");
    MPI_Comm comm;
    MPI_OK(MPI_Comm_create(MPI_COMM_WORLD, range, &comm));
    if (comm != MPI_COMM_NULL) {
        int sum = 0;
        MPI_OK(MPI_Scan(&test_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, test_rank == 3 ? 3 : test_rank == 2 ? 5 : 6);
        test_add(&sum, sizeof sum);
        MPI_OK(MPI_Comm_free(&comm));
    }
    MPI_Group *all[5] = {&world, &even, &odd, &range, &both};
    for (int i = 0; i < 5; i++)
        MPI_OK(MPI_Group_free(all[i]));
    return test_finish("infos_groups");
}

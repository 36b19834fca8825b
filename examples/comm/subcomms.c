//#Ranks: 4
//#Cut: hold
//#Matrix: full
//#Shows: communicators by split, dup, idup, create, create_group and split_type, each with a message in flight at the cut
#include "../stasis_test.h"

enum { COMMS = 7 };
static const char *names[COMMS] = {"dup", "split", "reversed", "create", "group", "node", "idup"};

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Comm comms[COMMS], split_of_dup, same;
    MPI_Group world, some;
    MPI_Request request, sends[COMMS];
    int out[COMMS], in;

    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, test_rank % 2, test_rank, &comms[1]));
    MPI_OK(MPI_Comm_split(comms[0], test_rank == 3 ? MPI_UNDEFINED : 1, -test_rank, &comms[2]));
    CHECK_EQ(comms[2] == MPI_COMM_NULL, test_rank == 3);
    MPI_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    int members[3] = {3, 0, 2};
    MPI_OK(MPI_Group_incl(world, 3, members, &some));
    MPI_OK(MPI_Comm_create(MPI_COMM_WORLD, some, &comms[3]));
    comms[4] = MPI_COMM_NULL;
    if (test_rank != 1)
        MPI_OK(MPI_Comm_create_group(MPI_COMM_WORLD, some, 77, &comms[4]));
    MPI_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comms[5]));
    MPI_OK(MPI_Comm_idup(comms[1], &comms[6], &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int k = 0; k < COMMS; k++)
        if (comms[k] != MPI_COMM_NULL) {
            int r, p;
            MPI_OK(MPI_Comm_set_name(comms[k], names[k]));
            MPI_OK(MPI_Comm_rank(comms[k], &r));
            MPI_OK(MPI_Comm_size(comms[k], &p));
            out[k] = 1000 * k + 10 * r + p;
            MPI_OK(MPI_Isend(&out[k], 1, MPI_INT, (r + 1) % p, 4, comms[k], &sends[k]));
        } else {
            sends[k] = MPI_REQUEST_NULL;
        }
    cut();
    /* The same tag everywhere: only the communicator tells the messages apart. */
    for (int k = COMMS - 1; k >= 0; k--) {
        if (comms[k] == MPI_COMM_NULL)
            continue;
        int r, p, sum = 0, length, relation;
        char name[MPI_MAX_OBJECT_NAME];
        MPI_Status status;
        MPI_OK(MPI_Comm_rank(comms[k], &r));
        MPI_OK(MPI_Comm_size(comms[k], &p));
        int left = (r + p - 1) % p;
        MPI_OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[k], &status));
        CHECK_EQ(in, 1000 * k + 10 * left + p);
        CHECK_EQ(status.MPI_SOURCE, left);
        MPI_OK(MPI_Allreduce(&out[k], &sum, 1, MPI_INT, MPI_SUM, comms[k]));
        CHECK_EQ(sum, p * (1000 * k + p) + 10 * p * (p - 1) / 2);
        MPI_OK(MPI_Comm_get_name(comms[k], name, &length));
        CHECK(strcmp(name, names[k]) == 0, "its name is '%s'", name);
        MPI_OK(MPI_Comm_compare(comms[k], MPI_COMM_WORLD, &relation));
        CHECK_EQ(relation, p < 4 ? MPI_UNEQUAL : MPI_CONGRUENT);
        test_add(&sum, sizeof sum);
    }
    MPI_OK(MPI_Waitall(COMMS, sends, MPI_STATUSES_IGNORE));
    if (comms[4] != MPI_COMM_NULL) {
        int relation, ranks[3] = {0, 1, 2}, in_world[3];
        MPI_Group group;
        MPI_OK(MPI_Comm_group(comms[4], &group));
        MPI_OK(MPI_Group_compare(group, some, &relation));
        CHECK_EQ(relation, MPI_IDENT);
        MPI_OK(MPI_Group_translate_ranks(group, 3, ranks, world, in_world));
        for (int i = 0; i < 3; i++)
            CHECK_EQ(in_world[i], members[i]);
        MPI_OK(MPI_Group_free(&group));
    }
    /* And new ones can be made of the old ones. */
    MPI_OK(MPI_Comm_split(comms[0], test_rank / 2, 0, &split_of_dup));
    int sum = 0;
    MPI_OK(MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, split_of_dup));
    CHECK_EQ(sum, test_rank < 2 ? 1 : 5);
    MPI_OK(MPI_Comm_dup(comms[6], &same));
    MPI_OK(MPI_Barrier(same));
    MPI_OK(MPI_Comm_free(&same));
    MPI_OK(MPI_Comm_free(&split_of_dup));
    for (int k = 0; k < COMMS; k++)
        if (comms[k] != MPI_COMM_NULL)
            MPI_OK(MPI_Comm_free(&comms[k]));
    MPI_OK(MPI_Group_free(&some));
    MPI_OK(MPI_Group_free(&world));
    return test_finish("subcomms");
}

//#Ranks: 2
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: communicators, groups and datatypes made and freed all the time, some kept, in a loop that the cut hits anywhere
#include "../stasis_test.h"

enum { KEPT = 5 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Comm kept[KEPT];
    for (int i = 0; i < KEPT; i++)
        kept[i] = MPI_COMM_NULL;
    for (int step = 0; cut_more(step, 150, MPI_COMM_WORLD); step++) {
        MPI_Comm pass, *slot = &kept[step % KEPT];
        MPI_Datatype vector;
        MPI_Group group;
        int sum = 0, out[8] = {0}, in[8] = {0};
        if (*slot != MPI_COMM_NULL)
            MPI_OK(MPI_Comm_free(slot));
        MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, step % 2 ? test_rank : -test_rank, slot));
        MPI_OK(MPI_Comm_dup(*slot, &pass));
        MPI_OK(MPI_Comm_group(pass, &group));
        MPI_OK(MPI_Type_vector(4, 1, 2, MPI_INT, &vector));
        MPI_OK(MPI_Type_commit(&vector));
        for (int i = 0; i < 8; i++)
            out[i] = 10 * step + i;
        MPI_OK(MPI_Sendrecv(out, 1, vector, 1 - test_rank, 1, in, 1, vector, 1 - test_rank, 1, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE));
        for (int i = 0; i < 8; i++)
            CHECK_EQ(in[i], i % 2 ? 0 : 10 * step + i);
        MPI_OK(MPI_Type_free(&vector));
        MPI_OK(MPI_Group_free(&group));
        MPI_OK(MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, pass));
        CHECK_EQ(sum, 2 * step);
        MPI_OK(MPI_Comm_free(&pass));
        for (int i = 0; i < KEPT; i++)
            if (kept[i] != MPI_COMM_NULL) {
                int r;
                MPI_OK(MPI_Comm_rank(kept[i], &r));
                MPI_OK(MPI_Bcast(&r, 1, MPI_INT, 0, kept[i]));
                CHECK_EQ(r, 0);
            }
    }
    for (int i = 0; i < KEPT; i++)
        MPI_OK(MPI_Comm_free(&kept[i]));
    return test_finish_loop("many_comms");
}

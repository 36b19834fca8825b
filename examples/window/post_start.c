//#Ranks: 3
//#Cut: hold
//#Shows: post, start, complete and wait, each of them waiting or open at the cut
//#Variant: open
//#Variant: in_start
//#Variant: in_wait
//#Variant: in_test
#include "../stasis_test.h"

static MPI_Win window;
static int memory[16];

int main(int argc, char **argv)
{
    MPI_Group world, target, origins;
    int zero = 0, others[2] = {1, 2}, done = 0;
    test_start(&argc, &argv);
    MPI_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MPI_OK(MPI_Group_incl(world, 1, &zero, &target));
    MPI_OK(MPI_Group_incl(world, 2, others, &origins));
    MPI_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    for (int round = 1; round <= 3; round++) {
        int value = 10 * round + test_rank, here = round == 2;
        if (test_rank == 0) {
            if (here && test_is(argc, argv, "in_start"))
                cut();
            MPI_OK(MPI_Win_post(origins, 0, window));
            if (here && test_is(argc, argv, "open"))
                cut();
            if (here && test_is(argc, argv, "in_wait"))
                cut_announce();
            if (here && test_is(argc, argv, "in_test")) {
                cut();
                while (!done)
                    MPI_OK(MPI_Win_test(window, &done));
            } else {
                MPI_OK(MPI_Win_wait(window));
            }
            CHECK_EQ(memory[1], 10 * round + 1);
            CHECK_EQ(memory[2], 10 * round + 2);
            test_add(memory, sizeof memory);
        } else {
            if (here && test_is(argc, argv, "in_start"))
                cut_announce();
            MPI_OK(MPI_Win_start(target, 0, window));
            MPI_OK(MPI_Put(&value, 1, MPI_INT, 0, test_rank, 1, MPI_INT, window));
            if (here && !test_is(argc, argv, "in_start"))
                cut();
            MPI_OK(MPI_Win_complete(window));
        }
    }
    MPI_OK(MPI_Win_free(&window));
    MPI_OK(MPI_Group_free(&world));
    MPI_OK(MPI_Group_free(&target));
    MPI_OK(MPI_Group_free(&origins));
    return test_finish("post_start");
}

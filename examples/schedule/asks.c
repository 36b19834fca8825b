//#Ranks: 2
//#Cut: loop
//#Shows: a program that asks for checkpoints itself, by stasis.h
#include "../../upper-half/include/stasis.h"
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    for (int step = 0; cut_more(step, 100, MPI_COMM_WORLD); step++) {
        int sum;
        MPI_OK(MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(sum, test_size * step);
        if (step == 20)
            fprintf(stderr, "asked: %d\n", stasis_checkpoint());
    }
    return test_finish_loop("asks");
}

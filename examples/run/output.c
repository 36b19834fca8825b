//#Ranks: 2
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: lines on standard output and in a file: none lost, none twice, whatever the moment
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    FILE *log = test_rank == 0 ? fopen("log", "w") : NULL;
    int steps = 0;
    for (int step = 0; cut_more(step, 200, MPI_COMM_WORLD); step++) {
        double x = step * (test_rank + 1), sum = 0;
        MPI_OK(MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        if (test_rank == 0) {
            fprintf(log, "step %d sum %.17g\n", step, sum);
            if (step % 7 == 0)
                fflush(log);
            if (step % 20 == 0 && step < 200) {
                printf("step %d sum %.17g\n", step, sum);
                fflush(stdout);
            }
        }
        steps = step + 1;
    }
    if (log) {
        int step, expected = 0;
        double sum;
        fclose(log);
        log = fopen("log", "r");
        while (fscanf(log, "step %d sum %lf\n", &step, &sum) == 2) {
            CHECK_EQ(step, expected);
            CHECK(sum == 3.0 * step, "step %d: %g", step, sum);
            expected++;
        }
        CHECK_EQ(expected, steps);
        fclose(log);
    }
    return test_finish_loop("output");
}

/* Rank 0 reads lines from standard input until one is `end`, and repeats them. */
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    char line[64];
    int done = 0;
    test_start(&argc, &argv);
    cut_announce();
    if (test_rank == 0) {
        while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n") != 0) {
            printf("read %s", line);
            fflush(stdout);
        }
        MPI_OK(MPI_Send(&done, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
    } else {
        MPI_OK(MPI_Recv(&done, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    return test_finish("reads_input");
}

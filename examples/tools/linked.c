/* Is linked with an MPI library, and never initialises it. With an argument, it makes the file linked.PID, and ends
 * when a file of the argument's name is there. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec pause = {0, 1000000};
    if (argc > 2)
        MPI_Init(&argc, &argv);
    if (argc > 1) {
        char mark[32];
        snprintf(mark, sizeof mark, "linked.%d", (int)getpid());
        FILE *made = fopen(mark, "w");
        if (!made || fclose(made) != 0)
            return 1;
    }
    while (argc > 1 && access(argv[1], F_OK) != 0)
        nanosleep(&pause, NULL);
    return 0;
}

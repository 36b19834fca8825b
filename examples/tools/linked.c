/* Is linked with an MPI library, and never initialises it. With an argument, it ends when a file of that
 * name is there. */
#include <mpi.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec pause = {0, 1000000};
    if (argc > 2)
        MPI_Init(&argc, &argv);
    while (argc > 1 && access(argv[1], F_OK) != 0)
        nanosleep(&pause, NULL);
    return 0;
}

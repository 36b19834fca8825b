/* Imports three functions of MPI, one of them one that Stasis refuses when it is called. */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Comm children;
    MPI_Init(&argc, &argv);
    if (argc > 1000)
        MPI_Comm_spawn(argv[1], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                       MPI_ERRCODES_IGNORE);
    MPI_Finalize();
    return 0;
}

/* Calls the functions that would start other processes or reach them. With "fatal", the first one ends
 * the job; otherwise each returns an error and the job goes on to its end. */
#include "../stasis_test.h"

#define REFUSED(call)                                            \
    do {                                                         \
        int class = 0;                                           \
        MPI_Error_class(call, &class);                           \
        CHECK_EQ(class, MPI_ERR_UNSUPPORTED_OPERATION);          \
    } while (0)

int main(int argc, char **argv)
{
    char *commands[] = {argv[0]};
    int counts[] = {1};
    MPI_Info infos[] = {MPI_INFO_NULL};
    MPI_Comm other;
    test_start(&argc, &argv);
    if (!test_is(argc, argv, "fatal"))
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    REFUSED(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                           MPI_ERRCODES_IGNORE));
    REFUSED(MPI_Comm_spawn_multiple(1, commands, MPI_ARGVS_NULL, counts, infos, 0, MPI_COMM_WORLD,
                                    &other, MPI_ERRCODES_IGNORE));
    REFUSED(MPI_Comm_accept("port", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other));
    REFUSED(MPI_Comm_connect("port", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other));
    REFUSED(MPI_Comm_join(0, &other));
    return test_finish("dynamic");
}

//#Shows: ports are opened and closed, names published, looked up and taken back, some before the cut and some after it
//#Ranks: 2
//#Mpi: openmpi, mpich
//#Cut: hold
#include "../stasis_test.h"

/* A port, or what stands for one where the library is built without dynamic processes, as MPICH over
 * UCX is: it can be published all the same. */
static void open_port(char *port, const char *otherwise)
{
    port[0] = 0;
    if (MPI_Open_port(MPI_INFO_NULL, port) != MPI_SUCCESS)
        strcpy(port, otherwise);
}

/* What every rank finds under a name must be what rank 0 has published. */
static void find(const char *service, char *port)
{
    char found[MPI_MAX_PORT_NAME] = "", published[MPI_MAX_PORT_NAME] = "";
    strcpy(published, port);
    MPI_OK(MPI_Bcast(published, sizeof published, MPI_CHAR, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Lookup_name(service, MPI_INFO_NULL, found));
    CHECK(strcmp(found, published) == 0, "%s is '%s', not '%s'", service, found, published);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    char first[MPI_MAX_PORT_NAME] = "", second[MPI_MAX_PORT_NAME] = "", none[MPI_MAX_PORT_NAME];
    int class;
    MPI_Comm parent;
    test_start(&argc, &argv);
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL);
    if (test_rank == 0) {
        open_port(first, "first");
        MPI_OK(MPI_Publish_name("stasis-first", MPI_INFO_NULL, first));
    }
    find("stasis-first", first);
    cut();
    find("stasis-first", first);
    if (test_rank == 0) {
        open_port(second, "second");
        MPI_OK(MPI_Publish_name("stasis-second", MPI_INFO_NULL, second));
    }
    find("stasis-second", second);
    if (test_rank == 0) {
        MPI_OK(MPI_Unpublish_name("stasis-first", MPI_INFO_NULL, first));
        MPI_OK(MPI_Unpublish_name("stasis-second", MPI_INFO_NULL, second));
        MPI_Error_class(MPI_Lookup_name("stasis-first", MPI_INFO_NULL, none), &class);
        CHECK_EQ(class, MPI_ERR_NAME);
        if (strcmp(first, "first") != 0)
            MPI_OK(MPI_Close_port(first));
        if (strcmp(second, "second") != 0)
            MPI_OK(MPI_Close_port(second));
    }
    MPI_OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL);
    return test_finish("ports");
}

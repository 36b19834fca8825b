//#Shows: a library that stands for the same one as another is opened for the first time after the cut
//#Ranks: 2
//#Mpi: openmpi
//#Modes: plain, continue, restart, migrate
//#Cut: hold
//#Flags: -ldl
/* Open MPI's Fortran library is opened where a program would load a plugin that wants it. Whatever it is, the
 * MPI functions that it reaches must be those of the library that is there: a second one beside it would know
 * nothing of the job. */
#include "../stasis_test.h"

#include <dlfcn.h>

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    cut();
    void *late = dlopen("libmpi_mpifh.so.40", RTLD_NOW | RTLD_GLOBAL);
    CHECK(late, "dlopen: %s", dlerror());
    void *there = dlsym(RTLD_DEFAULT, "PMPI_Comm_size");
    CHECK(there && dlsym(late, "PMPI_Comm_size") == there, "the MPI library is there twice");
    int (*size_of)(MPI_Comm, int *) = (int (*)(MPI_Comm, int *))there;
    int size = 0;
    MPI_OK(size_of(MPI_COMM_WORLD, &size));
    CHECK_EQ(size, test_size);
    /* Fortran's own function of that library, for communicator 0, MPI_COMM_WORLD. */
    void (*size_in_fortran)(const int *, int *, int *) =
        (void (*)(const int *, int *, int *))dlsym(late, "mpi_comm_size_");
    CHECK(size_in_fortran, "no mpi_comm_size_");
    const int world = 0;
    int error = -1;
    size_in_fortran(&world, &size, &error);
    CHECK_EQ(error, MPI_SUCCESS);
    CHECK_EQ(size, test_size);
    return test_finish("late_library");
}

/* Locks memory, now and later, and goes on where that is not allowed any more. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sys/mman.h>

#include "phases.h"

enum { SIZE = 1 << 20, ACCESS = PROT_READ | PROT_WRITE, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS };

static char *memory(void)
{
    char *made = mmap(NULL, SIZE, ACCESS, FLAGS, -1, 0);
    check(made != MAP_FAILED, "mmap");
    memset(made, 3, SIZE);
    return made;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    char *locked = memory();
    if (argc > 1)
        check(mlock(locked, SIZE) == 0, "mlock");
    check(mlockall(MCL_FUTURE) == 0, "mlockall");
    phase(1);
    check(locked[SIZE - 1] == 3 && memory()[0] == 3, "the memory");
    printf("it goes on\n");
    MPI_Finalize();
    return 0;
}

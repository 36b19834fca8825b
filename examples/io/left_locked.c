//#Ranks: 2
//#Cut: hold
//#Compare: none
//#Shows: a file with a shared pointer is opened although a job that was killed left the lock by which Open MPI guards the pointer of every file of that name; natively this waits for ever
#include "../stasis_test.h"
#include <fcntl.h>
#include <semaphore.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    enum { N = 4 };
    char name[32], lock[64];
    int record[N], pid = getpid();
    MPI_File file;
    sem_t *left;
    MPI_OK(MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD));
    snprintf(name, sizeof name, "left.%d", pid);
    snprintf(lock, sizeof lock, "/OMPIO_%s", name);
    if (test_rank == 0) {
        left = sem_open(lock, O_CREAT | O_EXCL, 0600, 0);
        CHECK(left != SEM_FAILED);
        sem_close(left);
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int i = 0; i < N; i++)
        record[i] = 10 * test_rank + i;
    MPI_OK(MPI_File_write_ordered(file, record, N, MPI_INT, MPI_STATUS_IGNORE));

    cut();

    MPI_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MPI_OK(MPI_File_read_ordered(file, record, N, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++)
        CHECK_EQ(record[i], 10 * test_rank + i);
    MPI_OK(MPI_File_close(&file));
    if (test_rank == 0)
        sem_unlink(lock);
    test_add(record, sizeof record);
    return test_finish("left_locked");
}

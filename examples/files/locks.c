//#Ranks: 2
//#Cut: hold
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: locks of flock and of fcntl, of an open file and of the process, are held by the same rank afterwards, also on a file that is mapped
#include "../stasis_test.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/mman.h>

static struct flock region(int type, off_t start, off_t len)
{
    return (struct flock){.l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
}

/* What the rank that holds no lock sees: all are taken. */
static void expect_locked(int fd)
{
    struct flock wanted = region(F_RDLCK, 7, 1);
    CHECK(fcntl(fd, F_SETLK, &wanted) == -1 && (errno == EAGAIN || errno == EACCES), "not locked by the process");
    wanted = region(F_WRLCK, 0, 7);
    CHECK(fcntl(fd, F_SETLK, &wanted) == 0, "locked too much");
    wanted = region(F_WRLCK, 150, 1);
    CHECK(fcntl(fd, F_OFD_SETLK, &wanted) == -1 && errno == EAGAIN, "not locked by the open file");
    wanted = region(F_RDLCK, 150, 1);
    CHECK(fcntl(fd, F_OFD_SETLK, &wanted) == 0, "not shared");
    wanted.l_type = F_UNLCK;
    CHECK_EQ(fcntl(fd, F_OFD_SETLK, &wanted), 0);
    CHECK(flock(fd, LOCK_SH | LOCK_NB) == -1 && errno == EWOULDBLOCK, "not locked by flock");
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int fd = open("locked", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0, "open");
    CHECK_EQ(ftruncate(fd, 4096), 0);
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(mapped != MAP_FAILED, "mmap");
    if (test_rank == 0) {
        struct flock process = region(F_WRLCK, 7, 5), file = region(F_RDLCK, 100, 0);
        CHECK_EQ(fcntl(fd, F_SETLK, &process), 0);
        CHECK_EQ(fcntl(fd, F_OFD_SETLK, &file), 0);
        CHECK_EQ(flock(fd, LOCK_EX), 0);
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 1)
        expect_locked(fd);

    cut();

    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 1)
        expect_locked(fd);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 0) {
        munmap(mapped, 4096);
        close(fd);
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 1) {
        struct flock all = region(F_WRLCK, 0, 0);
        CHECK_EQ(fcntl(fd, F_SETLK, &all), 0);
        CHECK_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
    }
    return test_finish("locks");
}

/* Each rank does to files whatever can be done to them, at random and without an end: in directories of its own,
 * and in one that all share. The test stops it, takes checkpoints, kills it, and compares what is on the disk.
 *
 * Files by which the test leads it: with `go.N` a rank begins its turn number N, with `stop.N` it ends it and makes
 * `done.N.RANK`. */
#include "../stasis_test.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { SLOTS = 4, LONGEST = 40000 };

static uint64_t state;
static int slots[SLOTS];
static char data[LONGEST];

static unsigned pick(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

/* Most names are the rank's own; those in `common` are everybody's: any rank makes, writes, empties, renames and removes
 * what they lead to, at the same moment as others. */
static void directory(char *to)
{
    static const char *const inner[] = {"", "/a", "/b", "/a/c"};
    if (pick(2))
        sprintf(to, "work/rank.%d%s", test_rank, inner[pick(4)]);
    else
        strcpy(to, "work/common");
}

static void name(char *to)
{
    directory(to);
    sprintf(to + strlen(to), "/f%u", pick(6));
}

static unsigned length(void) { return pick(pick(3) ? 300 : LONGEST); }

static void fill(void)
{
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)pick(256);
}

static int opened(int flags)
{
    char path[64];
    name(path);
    return open(path, flags, 0644);
}

/* The name by which a descriptor was opened, wherever it is now. */
static void name_of(int fd, char *path, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, size - 1);
    path[n > 0 ? n : 0] = 0;
}

/* Writes to a file of the rank's own by memory. */
static void map(void)
{
    char path[64];
    struct stat facts;
    sprintf(path, "work/rank.%d/mapped", test_rank);
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0)
        return;
    if (pick(2))
        (void)!ftruncate(fd, length());
    if (fstat(fd, &facts) == 0 && facts.st_size > 0) {
        size_t size = (size_t)facts.st_size;
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory != MAP_FAILED) {
            memcpy(memory, data, size < 5000 ? size : 5000);
            munmap(memory, size);
        }
    }
    close(fd);
}

static void through(int fd)
{
    struct iovec two[] = {{data, length()}, {data + LONGEST / 2, length() / 2}};
    off_t at = length(), from = 0;
    int other;
    if (fd < 0)
        return;
    switch (pick(9)) {
    case 0:
        (void)!write(fd, data, length());
        break;
    case 1:
        (void)!pwrite(fd, data, length(), at);
        break;
    case 2:
        (void)!writev(fd, two, 2);
        break;
    case 3:
        (void)!pwritev(fd, two, 2, at);
        break;
    case 4:
        (void)!ftruncate(fd, length());
        break;
    case 5:
        (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, length() + 1);
        break;
    case 6:
        lseek(fd, at, SEEK_SET);
        break;
    case 7:
        if ((other = opened(O_RDONLY)) >= 0) {
            if (pick(2))
                (void)!sendfile(fd, other, &from, length());
            else
                (void)!copy_file_range(other, &from, fd, &at, length(), 0);
            close(other);
        }
        break;
    default:
        /* Files that another rank may shorten meanwhile are not written so. */
        map();
    }
}

static void change(void)
{
    char from[64], to[64];
    int *slot = &slots[pick(SLOTS)];
    int fd;
    name(from);
    name(to);
    switch (pick(16)) {
    case 0:
    case 1:
        if ((fd = opened(O_WRONLY | O_APPEND | O_CREAT)) >= 0) {
            (void)!write(fd, data, length());
            close(fd);
        }
        break;
    case 2:
        if ((fd = open(from, O_WRONLY | O_TRUNC | O_CREAT, 0644)) >= 0) {
            (void)!write(fd, data, length());
            close(fd);
        }
        break;
    case 3:
        if ((fd = opened(O_WRONLY | O_CREAT)) >= 0) {
            through(fd);
            close(fd);
        }
        break;
    case 4:
    case 5:
        if ((fd = opened(O_RDWR)) >= 0) {
            through(fd);
            close(fd);
        }
        break;
    case 6:
        unlink(from);
        break;
    case 7:
        rename(from, to);
        break;
    case 8:
        renameat2(AT_FDCWD, from, AT_FDCWD, to, pick(2) ? RENAME_EXCHANGE : 0);
        break;
    case 9:
        (void)!truncate(from, length());
        break;
    case 10:
        directory(to);
        mkdir(to, 0755);
        break;
    case 11:
        directory(to);
        if (!strstr(to, "common"))
            rmdir(to);
        break;
    case 12:
        directory(from);
        directory(to);
        if (strstr(from, "common") || !strchr(from + 8, '/'))
            break;
        if (pick(2))
            rename(from, to);
        else if (!strstr(to, "common") && strchr(to + 8, '/'))
            renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE);
        break;
    case 13:
        if (pick(2))
            (void)!symlink("nowhere", to);
        else
            (void)!link(from, to);
        break;
    case 14:
        if (*slot >= 0)
            close(*slot);
        *slot = opened((pick(3) ? O_RDWR : O_WRONLY) | (pick(2) ? O_CREAT : 0));
        break;
    default:
        through(*slot);
    }
}

/* What is open at a checkpoint is opened again by its name. */
static void close_nameless(void)
{
    struct stat open, named;
    char path[4096];
    for (int *slot = slots; slot < slots + SLOTS; slot++) {
        if (*slot < 0)
            continue;
        name_of(*slot, path, sizeof path);
        if (fstat(*slot, &open) != 0 || stat(path, &named) != 0 || open.st_ino != named.st_ino) {
            close(*slot);
            *slot = -1;
        }
    }
}

static int there(const char *kind, int turn)
{
    char path[64];
    snprintf(path, sizeof path, "%s.%d", kind, turn);
    return access(path, F_OK) == 0;
}

int main(int argc, char **argv)
{
    struct timespec moment = {0, 1000000};
    char path[64];
    test_start(&argc, &argv);
    for (int i = 0; i < SLOTS; i++)
        slots[i] = -1;
    mkdir("work", 0755);
    mkdir("work/common", 0755);
    snprintf(path, sizeof path, "work/rank.%d", test_rank);
    mkdir(path, 0755);
    for (int turn = 0; !there("go", -1); turn++) {
        while (!there("go", turn) && !there("go", -1))
            nanosleep(&moment, NULL);
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        state = (uint64_t)now.tv_nsec * 31 + (uint64_t)test_rank;
        fill();
        while (!there("stop", turn) && !there("go", -1))
            for (int i = 0; i < 20; i++)
                change();
        close_nameless();
        /* Another rank must not take a name away after that. */
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        close_nameless();
        snprintf(path, sizeof path, "done.%d.%d", turn, test_rank);
        close(open(path, O_WRONLY | O_CREAT, 0644));
    }
    return test_finish("changes");
}

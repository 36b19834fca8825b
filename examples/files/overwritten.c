//#Ranks: 2
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle, ten, stop
//#Matrix: full
//#Timeout: 120
//#Shows: files that are made, overwritten, cut off, also by descriptors that append, renamed over each other, linked and removed in each step, by one rank and by all in turn, until the job is killed: each rank remembers what is in every file, and in the end finds just that
#include "../stasis_test.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

enum { FILES = 6, LONGEST = 30000 };

/* A directory, and what is in its files: none has a length below 0. Two names may be of one file. */
struct directory {
    char path[32];
    uint64_t random;
    int length[FILES];
    int file_of[FILES];
    unsigned char content[FILES][LONGEST];
};

static struct directory own, common;
static unsigned char bytes[LONGEST + 1];

static unsigned pick(struct directory *d, unsigned n)
{
    d->random = d->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(d->random >> 33) % n;
}

static const char *path_of(const struct directory *d, int name)
{
    static char paths[2][64];
    static int turn;
    char *path = paths[turn = !turn];
    snprintf(path, sizeof paths[0], "%s/f%d", d->path, name);
    return path;
}

/* The files of a directory are numbered as the names; a name without a file has a number below 0. */
static int free_file(const struct directory *d)
{
    for (int file = 0; file < FILES; file++) {
        int used = 0;
        for (int name = 0; name < FILES; name++)
            used |= d->file_of[name] == file;
        if (!used)
            return file;
    }
    return -1;
}

/* What a rank remembers of its change; whether it is to be done. A change of the common directory all ranks remember,
 * and one of them does it. */
#define DO(call)                                                                    \
    do {                                                                            \
        if (mine)                                                                   \
            CHECK((call) >= 0, "%s in %s: %s", #call, d->path, strerror(errno));    \
    } while (0)

static void fill(struct directory *d, int file, int from, int length)
{
    for (int i = 0; i < length; i++)
        d->content[file][from + i] = (unsigned char)pick(d, 256);
}

static void put(struct directory *d, int name, int from, int length, int flags, int mine)
{
    int file = d->file_of[name], fd = -1;
    if (file < 0) {
        file = d->file_of[name] = free_file(d);
        d->length[file] = 0;
    } else if (flags & O_TRUNC) {
        d->length[file] = 0;
    }
    if (flags & O_APPEND)
        from = d->length[file];
    if (from + length > LONGEST)
        length = LONGEST - from;
    if (from > d->length[file])
        memset(d->content[file] + d->length[file], 0, (size_t)(from - d->length[file]));
    fill(d, file, from, length);
    if (length && from + length > d->length[file])
        d->length[file] = from + length;
    DO(fd = open(path_of(d, name), O_CREAT | flags, 0644));
    if (mine && flags & O_APPEND)
        CHECK_EQ(write(fd, d->content[file] + from, (size_t)length), length);
    else if (mine)
        CHECK_EQ(pwrite(fd, d->content[file] + from, (size_t)length, from), length);
    DO(close(fd));
}

static void shorten(struct directory *d, int name, int length, int mine)
{
    int file = d->file_of[name];
    if (file < 0 || length > d->length[file])
        return;
    d->length[file] = length;
    DO(truncate(path_of(d, name), length));
}

/* A descriptor that appends cuts the file off. Then it appends no more, and the other of its numbers overwrites. */
static void by_appending(struct directory *d, int name, int from, int length, int mine)
{
    int file = d->file_of[name], fd = -1, second = -1;
    if (file < 0)
        return;
    if (from > d->length[file])
        from = d->length[file];
    if (from + length > LONGEST)
        length = LONGEST - from;
    DO(fd = open(path_of(d, name), O_RDWR | O_APPEND));
    DO(second = dup(fd));
    DO(ftruncate(fd, from));
    fill(d, file, from, length);
    if (mine)
        CHECK_EQ(write(second, d->content[file] + from, (size_t)length), length);
    d->length[file] = from + length;
    DO(fcntl(fd, F_SETFL, 0));
    length = d->length[file] / 2;
    fill(d, file, 0, length);
    if (mine)
        CHECK_EQ(pwrite(second, d->content[file], (size_t)length, 0), length);
    DO(close(fd));
    DO(close(second));
}

static void change(struct directory *d, int mine)
{
    int name = (int)pick(d, FILES), other = (int)pick(d, FILES), what = (int)pick(d, 10);
    int from = (int)pick(d, LONGEST), length = (int)pick(d, pick(d, 3) ? 300 : LONGEST);
    int is = d->file_of[name] >= 0;
    switch (what) {
    case 0:
        put(d, name, 0, length, O_WRONLY | O_TRUNC, mine);
        break;
    case 1:
        put(d, name, 0, length, O_WRONLY | O_APPEND, mine);
        break;
    case 2:
    case 3:
    case 4:
        put(d, name, from, length, what == 2 ? O_WRONLY : O_RDWR, mine);
        break;
    case 5:
        shorten(d, name, from, mine);
        break;
    case 6:
        /* Between two names of one file it does nothing. */
        if (is && d->file_of[name] != d->file_of[other]) {
            d->file_of[other] = d->file_of[name];
            d->file_of[name] = -1;
            DO(rename(path_of(d, name), path_of(d, other)));
        }
        break;
    case 7:
        if (is) {
            d->file_of[name] = -1;
            DO(unlink(path_of(d, name)));
        }
        break;
    case 8:
        by_appending(d, name, from, length, mine);
        break;
    default:
        if (is && d->file_of[other] < 0) {
            d->file_of[other] = d->file_of[name];
            DO(link(path_of(d, name), path_of(d, other)));
        }
    }
}

static void check(const struct directory *d)
{
    struct dirent *entry;
    int found = 0, names = 0;
    for (int name = 0; name < FILES; name++) {
        int file = d->file_of[name], fd = open(path_of(d, name), O_RDONLY);
        names += file >= 0;
        CHECK_EQ(fd >= 0, file >= 0);
        if (fd < 0)
            continue;
        long length = read(fd, bytes, sizeof bytes);
        CHECK(length == d->length[file], "%s has %ld bytes, should have %d", path_of(d, name), length,
              d->length[file]);
        for (int i = 0; i < length; i++)
            CHECK(bytes[i] == d->content[file][i], "%s differs in byte %d of %ld", path_of(d, name), i, length);
        CHECK_EQ(close(fd), 0);
    }
    DIR *all = opendir(d->path);
    CHECK(all, "%s: %s", d->path, strerror(errno));
    while ((entry = readdir(all)))
        found += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
    CHECK_EQ(closedir(all), 0);
    CHECK_EQ(found, names);
}

static void begin(struct directory *d, const char *path, uint64_t seed)
{
    strcpy(d->path, path);
    d->random = seed;
    for (int name = 0; name < FILES; name++)
        d->file_of[name] = -1;
    CHECK(mkdir(path, 0755) == 0 || errno == EEXIST, "%s: %s", path, strerror(errno));
}

int main(int argc, char **argv)
{
    char path[32];
    test_start(&argc, &argv);
    snprintf(path, sizeof path, "own.%d", test_rank);
    begin(&own, path, 77 + (uint64_t)test_rank);
    begin(&common, "common", 7);
    for (int step = 0; cut_more(step, 300, MPI_COMM_WORLD); step++) {
        change(&own, 1);
        change(&common, step % test_size == test_rank);
        if (step % 10 == 0)
            check(&own);
        /* The next rank's turn. */
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (step % 10 == 5)
            check(&common);
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    check(&own);
    check(&common);
    return test_finish("overwritten");
}

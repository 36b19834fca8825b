/* Rank 0 does to files what the test tells it: `do.N` holds its order number N, and `did.N` says that it is done. Every
 * call must succeed.
 *
 *   make FILE BYTES VALUE   a new file, or an empty one, gets so many bytes of that value, in pieces
 *   over FILE BYTES VALUE   so many bytes are written over its first ones, in pieces
 *   end                     the job is over */
#include "../stasis_test.h"

#include <errno.h>

enum { PIECE = 1 << 20 };

static char piece[PIECE];

static void put(const char *name, int flags, long length, int value)
{
    memset(piece, value, sizeof piece);
    int fd = open(name, O_WRONLY | flags, 0644);
    CHECK(fd >= 0, "%s: %s", name, strerror(errno));
    for (long at = 0; at < length; at += PIECE) {
        size_t wanted = length - at < PIECE ? (size_t)(length - at) : PIECE;
        ssize_t done = write(fd, piece, wanted);
        CHECK(done == (ssize_t)wanted, "%zd of %zu bytes of %s, from %ld on: %s", done, wanted, name, at,
              strerror(errno));
    }
    CHECK_EQ(close(fd), 0);
}

/* Whether it is an order, and not the end. */
static int obey(const char *path)
{
    char what[8], name[256];
    long length;
    int value;
    FILE *order = fopen(path, "r");
    CHECK(order, "%s: %s", path, strerror(errno));
    int is_order = fscanf(order, "%7s %255s %ld %d", what, name, &length, &value) == 4;
    if (is_order && test_rank == 0)
        put(name, strcmp(what, "make") == 0 ? O_CREAT | O_TRUNC : 0, length, value);
    fclose(order);
    return is_order;
}

int main(int argc, char **argv)
{
    struct timespec moment = {0, 1000000};
    char path[64];
    int goes_on = 1;
    test_start(&argc, &argv);
    for (int number = 0; goes_on; number++) {
        snprintf(path, sizeof path, "do.%d", number);
        while (access(path, F_OK) != 0)
            nanosleep(&moment, NULL);
        goes_on = obey(path);
        if (test_rank == 0) {
            snprintf(path, sizeof path, "did.%d", number);
            close(open(path, O_WRONLY | O_CREAT, 0644));
        }
    }
    return test_finish("does");
}

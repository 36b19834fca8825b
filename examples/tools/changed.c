/* When the checkpoint is taken each rank has files; after it, it does one thing to each of them, and what it has done
 * is told beforehand, and undone, by a restart. With the file `end` it ends. */
#include "../stasis_test.h"

#include <sys/stat.h>

static const char *name(const char *what)
{
    static char names[4][64];
    static int next;
    char *path = names[next++ % 4];
    snprintf(path, sizeof names[0], "work/%s.%d", what, test_rank);
    return path;
}

static void put(const char *what, int flags, const char *text)
{
    int file = open(name(what), flags, 0644);
    CHECK(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) && close(file) == 0, "%s", what);
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"kept", "over", "gone", "old", "log", "short"};
    struct timespec moment = {0, 1000000};
    test_start(&argc, &argv);
    mkdir("work", 0755);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        put(kinds[i], O_WRONLY | O_CREAT, "twelve bytes");
    mkdir(name("dir"), 0755);
    int held = open(name("held"), O_RDWR | O_CREAT, 0644);
    CHECK(held >= 0 && write(held, "twelve bytes", 12) == 12, "held");
    /* It has a second name, and is changed by that one. */
    CHECK(link(name("held"), name("twin")) == 0, "twin");
    int idle = open(name("idle"), O_RDWR | O_CREAT, 0644);
    CHECK(idle >= 0 && write(idle, "twelve bytes", 12) == 12, "idle");
    cut();
    put("twin", O_WRONLY, "T");
    put("over", O_WRONLY, "TWELVE");
    put("log", O_WRONLY | O_APPEND, " and more");
    put("short", O_WRONLY | O_TRUNC, "2");
    put("new", O_WRONLY | O_CREAT, "made since");
    CHECK(unlink(name("gone")) == 0 && rename(name("old"), name("renamed")) == 0 && rmdir(name("dir")) == 0, "names");
    CHECK(pwrite(held, "!", 1, 12) == 1, "held");
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 0)
        close(open("changed", O_WRONLY | O_CREAT, 0644));
    while (access("end", F_OK) != 0)
        nanosleep(&moment, NULL);
    return test_finish_loop("changed");
}

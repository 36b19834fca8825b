/* Changes a file between two checkpoints, as its argument says. One rank. It waits in `phase` for the test. */
#include <mpi.h>
#include <sys/stat.h>

#include "phases.h"

static void put(const char *text)
{
    FILE *file = fopen("data", "w");
    check(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "data");
}

static void show(int file)
{
    char text[64] = "";
    check(pread(file, text, sizeof text - 1, 0) >= 0, "pread");
    printf("data: %s\n", text);
}

/* The file loses its name while it is open, and has its content still. */
static void unlinked(void)
{
    int file = open("data", O_CREAT | O_RDWR | O_TRUNC, 0644);
    check(file >= 0 && write(file, "one ", 4) == 4, "the first write");
    phase(1);
    check(unlink("data") == 0 && write(file, "two ", 4) == 4, "the second write");
    phase(2);
    check(write(file, "three", 5) == 5, "the third write");
    show(file);
}

/* The file has other content after each checkpoint, and in each run. */
static void rewritten(void)
{
    put("one");
    phase(1);
    put(access("second-run", F_OK) == 0 ? "two of the second run" : "two");
    phase(2);
    int file = open("data", O_RDONLY);
    show(file);
    close(file);
    put("three");
    phase(3);
}

/* A directory with more rights than the mask of the process leaves to a new one is removed. */
static void removed(void)
{
    umask(0);
    check(mkdir("directory", 01777) == 0 && chmod("directory", 01777) == 0, "mkdir");
    umask(022);
    phase(1);
    check(rmdir("directory") == 0, "rmdir");
    phase(2);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "unlinked"))
        unlinked();
    else if (argc > 1 && !strcmp(argv[1], "removed"))
        removed();
    else
        rewritten();
    MPI_Finalize();
    return 0;
}

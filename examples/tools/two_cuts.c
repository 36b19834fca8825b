/* Changes a file between two checkpoints, as its argument says. One rank. It waits in `phase` for the test. */
#define _GNU_SOURCE
#include <linux/fs.h>
#include <mpi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "phases.h"

static void put(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");
    check(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, name);
}

enum { PAGE = 4096, SIZE = 16 * PAGE };

/* A file of one letter, open for reading and writing. */
static int filled(const char *name, int letter)
{
    static char text[SIZE];
    memset(text, letter, SIZE);
    int file = open(name, O_CREAT | O_RDWR | O_TRUNC, 0644);
    check(file >= 0 && write(file, text, SIZE) == SIZE, name);
    return file;
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
    put("data", "one");
    phase(1);
    put("data", access("second-run", F_OK) == 0 ? "two of the second run" : "two");
    phase(2);
    int file = open("data", O_RDONLY);
    show(file);
    close(file);
    put("data", "three");
    phase(3);
}

/* A directory with more rights than the mask of the process leaves to a new one is removed. Two directories exchange
 * their names, and so do a directory and a file. */
static void directories(void)
{
    umask(0);
    check(mkdir("directory", 01777) == 0 && chmod("directory", 01777) == 0, "mkdir");
    umask(022);
    check(mkdir("one", 0755) == 0 && mkdir("two", 0755) == 0 && mkdir("three", 0755) == 0, "mkdir");
    put("one/file", "one");
    put("two/file", "two");
    put("three/file", "three");
    put("data", "none");
    phase(1);
    check(rmdir("directory") == 0, "rmdir");
    check(renameat2(AT_FDCWD, "one", AT_FDCWD, "two", RENAME_EXCHANGE) == 0, "two directories");
    check(renameat2(AT_FDCWD, "data", AT_FDCWD, "three", RENAME_EXCHANGE) == 0, "a directory");
    put("one/file", "three");
    put("three", "four");
    phase(2);
}

/* Files are changed by a clone of another one. */
static void cloned(void)
{
    int source = filled("source", 's'), whole = filled("whole", 'a'), part = filled("part", 'a');
    struct file_clone_range range = {source, 0, PAGE, 4 * PAGE};
    phase(1);
    check(ioctl(whole, FICLONE, source) == 0, "FICLONE");
    check(ioctl(part, FICLONERANGE, &range) == 0, "FICLONERANGE");
    phase(2);
}

/* A shared mapping of a file is enlarged. */
static void remapped(void)
{
    int file = filled("data", 'a');
    char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(memory != MAP_FAILED && close(file) == 0, "mmap");
    phase(1);
    memory = mremap(memory, PAGE, SIZE, MREMAP_MAYMOVE);
    check(memory != MAP_FAILED, "mremap");
    memset(memory, 'b', SIZE);
    phase(2);
}

enum { MAPPED = 7 };

/* Letters of two pages of each mapping: one that is the file's, and one that the program has written. */
static void show_mapped(char *memory[MAPPED])
{
    printf("mapped:");
    for (int i = 0; i < MAPPED; i++)
        printf(" %c%c", memory[i][3 * PAGE], memory[i][PAGE]);
    printf("\n");
}

/* Files that are mapped privately are overwritten, emptied, extended, replaced, removed and moved with their directory.
 * One is only opened. */
static void privately(void)
{
    static const char *const names[MAPPED] = {"over", "emptied", "extended", "replaced", "removed", "one/moved", "opened"};
    char *memory[MAPPED];
    check(mkdir("one", 0755) == 0, "mkdir");
    for (int i = 0; i < MAPPED; i++) {
        int file = filled(names[i], 'a');
        memory[i] = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        check(memory[i] != MAP_FAILED && close(file) == 0, names[i]);
        memory[i][PAGE] = 'p';
        check(memory[i][2 * PAGE] == 'a', "the mapping");
    }
    phase(1);
    for (int i = 0; i < MAPPED; i++)
        for (int page = 0; page < SIZE / PAGE; page++)
            check(memory[i][page * PAGE] == (page == 1 ? 'p' : 'a'), names[i]);
    int file = open("over", O_WRONLY);
    check(file >= 0 && pwrite(file, "b", 1, 3 * PAGE) == 1 && close(file) == 0, "over");
    close(filled("emptied", 'b'));
    file = open("extended", O_WRONLY | O_APPEND);
    check(file >= 0 && write(file, "b", 1) == 1 && close(file) == 0, "extended");
    put("new", "new");
    check(rename("new", "replaced") == 0 && unlink("removed") == 0, "replaced");
    check(rename("one", "two") == 0, "a directory");
    file = open("opened", O_RDWR);
    check(file >= 0 && close(file) == 0, "opened");
    phase(2);
    show_mapped(memory);
}

/* The working directory of the checkpoint is removed. The test's files lead out of it. */
static void workdir(void)
{
    static const char *const names[] = {"at.1", "go.1"};
    char target[16];
    check(mkdir("work", 0755) == 0 && chdir("work") == 0, "mkdir");
    for (int i = 0; i < 2; i++) {
        snprintf(target, sizeof target, "../%s", names[i]);
        check(symlink(target, names[i]) == 0, "symlink");
    }
    phase(1);
    check(access("../work", F_OK) == 0, "the working directory");
    check(unlink("at.1") == 0 && unlink("go.1") == 0 && chdir("..") == 0 && rmdir("work") == 0, "rmdir");
    phase(2);
}

/* Pipes, sockets and a file get names, and files and a directory get other access rights. */
static void named(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    umask(0);
    int file = filled("file", 'a'), held = filled("held", 'a');
    check(mkdir("directory", 0755) == 0, "mkdir");
    check(mkfifo("old-pipe", 0600) == 0, "mkfifo");
    close(file);
    phase(1);
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    check(bind(server, (struct sockaddr *)&address, sizeof address) == 0 && close(server) == 0, "bind");
    check(mkfifo("pipe", 0600) == 0, "mkfifo");
    check(mknod("node", S_IFREG | 0600, 0) == 0, "mknod");
    check(unlink("old-pipe") == 0 && mkfifo("old-pipe", 0600) == 0, "a second mkfifo");
    check(chmod("file", 0444) == 0 && fchmod(held, 04711) == 0, "chmod");
    check(fchmodat(AT_FDCWD, "directory", 0500, 0) == 0, "fchmodat");
    phase(2);
}

static char *object(const char *name, int flags)
{
    int file = shm_open(name, O_RDWR | flags, 0600);
    check(file >= 0 && ftruncate(file, PAGE) == 0, name);
    char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(memory != MAP_FAILED && close(file) == 0, name);
    return memory;
}

/* One object of shared memory is mapped at the checkpoint, another one is not, and a third is made behind it. */
static void objects(const char *tag)
{
    char names[3][64];
    for (int i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], "/stasis-%s-%d", tag, i);
    char *held = object(names[0], O_CREAT | O_EXCL), *closed = object(names[1], O_CREAT | O_EXCL);
    strcpy(held, "held");
    strcpy(closed, "closed");
    munmap(closed, PAGE);
    phase(1);
    check(strcmp(held, "held") == 0, "the held object");
    strcpy(held, "other");
    closed = object(names[1], 0);
    check(strcmp(closed, "closed") == 0, "the closed object");
    strcpy(closed, "other");
    strcpy(object(names[2], O_CREAT | O_EXCL), "new");
    check(shm_unlink(names[0]) == 0 && shm_unlink(names[1]) == 0, "shm_unlink");
    phase(2);
    check(shm_unlink(names[2]) == 0, "shm_unlink");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    check(argc >= 2, "the argument");
    if (!strcmp(argv[1], "unlinked"))
        unlinked();
    else if (!strcmp(argv[1], "directories"))
        directories();
    else if (!strcmp(argv[1], "cloned"))
        cloned();
    else if (!strcmp(argv[1], "workdir"))
        workdir();
    else if (!strcmp(argv[1], "privately"))
        privately();
    else if (!strcmp(argv[1], "remapped"))
        remapped();
    else if (!strcmp(argv[1], "named"))
        named();
    else if (!strcmp(argv[1], "objects"))
        objects(argv[2]);
    else
        rewritten();
    MPI_Finalize();
    return 0;
}

//#Ranks: 2
//#Cut: hold
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: a directory that is half read; files of /proc, read on and read anew
#include "../stasis_test.h"

#include <dirent.h>
#include <sys/stat.h>

enum { FILES = 1500 };

int main(int argc, char **argv)
{
    static char seen[FILES];
    char name[64], line[256];
    int found = 0;
    test_start(&argc, &argv);
    snprintf(name, sizeof name, "directory.%d", test_rank);
    CHECK_EQ(mkdir(name, 0700), 0);
    int at = open(name, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "file-with-a-name-that-takes-room-%d", i);
        int fd = openat(at, name, O_WRONLY | O_CREAT, 0600);
        CHECK(fd >= 0, "file %d", i);
        close(fd);
    }
    DIR *directory = fdopendir(dup(at));
    for (struct dirent *entry; (found += (entry = readdir(directory)) && sscanf(entry->d_name, "file-with-a-name-that-takes-room-%d", &at) == 1 && !seen[at]++) < FILES / 2;)
        CHECK(entry != NULL, "only %d files", found);
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status && fgets(line, sizeof line, status) && strncmp(line, "Name:", 5) == 0, "'%s'", line);

    cut();

    for (struct dirent *entry; (entry = readdir(directory));)
        found += sscanf(entry->d_name, "file-with-a-name-that-takes-room-%d", &at) == 1 && !seen[at]++;
    CHECK_EQ(found, FILES);
    CHECK(fgets(line, sizeof line, status) && strncmp(line, "Umask:", 6) == 0, "'%s'", line);
    rewind(status);
    CHECK(fgets(line, sizeof line, status) && strncmp(line, "Name:", 5) == 0, "'%s'", line);
    return test_finish("directory");
}

//#Ranks: 2
//#Cut: hold
//#Modes: plain, continue, restart, migrate, cycle, ten
//#Shows: files: positions shared by dup and apart after another open, flags, append, a file written on until the job is killed, output redirected and back
#include "../stasis_test.h"

#include <sys/stat.h>

static char *name_of(const char *what)
{
    static char name[4][64];
    static int next;
    char *name_now = name[next++ % 4];
    snprintf(name_now, 64, "%s.%d", what, test_rank);
    return name_now;
}

/* The next line must have this number. */
static void expect_number(FILE *file, int number)
{
    int found = -1;
    CHECK(fscanf(file, "%d\n", &found) == 1, "number %d is missing", number);
    CHECK_EQ(found, number);
}

int main(int argc, char **argv)
{
    char text[64];
    struct timespec moment = {0, 1000000};
    test_start(&argc, &argv);

    int shared = open(name_of("shared"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    int twin = dup(shared), apart = open(name_of("shared"), O_RDONLY | O_CLOEXEC);
    CHECK(shared >= 0 && twin >= 0 && apart >= 0, "open");
    CHECK_EQ(write(shared, "0123456789", 10), 10);
    CHECK_EQ(lseek(twin, 4, SEEK_SET), 4);
    CHECK_EQ(read(apart, text, 7), 7);
    int far = fcntl(shared, F_DUPFD, 731);
    CHECK_EQ(far, 731);

    int append = open(name_of("append"), O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0600);
    CHECK_EQ(write(append, "first\n", 6), 6);
    int direct = open(name_of("direct"), O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_SYNC, 0600);
    char *page = aligned_alloc(4096, 8192);
    test_fill(page, 8192, 3);
    CHECK_EQ(write(direct, page, 8192), 8192);
    CHECK_EQ(lseek(direct, 4096, SEEK_SET), 4096);
    int path = open(name_of("direct"), O_PATH);

    /* Written through stdio, position behind what was read ahead. */
    FILE *table = fopen(name_of("table"), "w+");
    for (int i = 0; i < 3000; i++)
        fprintf(table, "%d\n", i);
    rewind(table);
    for (int i = 0; i < 7; i++)
        expect_number(table, i);

    /* Standard output goes to a file for a while. */
    fflush(stdout);
    int out = dup(STDOUT_FILENO);
    int log = open(name_of("log"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK_EQ(dup2(log, STDOUT_FILENO), STDOUT_FILENO);
    close(log);
    printf("into the log, ");
    fflush(stdout);

    int flags[] = {fcntl(shared, F_GETFL), fcntl(apart, F_GETFL), fcntl(append, F_GETFL), fcntl(direct, F_GETFL),
                   fcntl(path, F_GETFL)};

    /* It grows until the job is killed. */
    FILE *steps = fopen(name_of("steps"), "w");
    int step = 0;
    cut_announce();
    do {
        fprintf(steps, "%d\n", step++);
        fflush(steps);
        nanosleep(&moment, NULL);
    } while (!cut_open());
    fclose(steps);
    steps = fopen(name_of("steps"), "r");
    for (int i = 0; i < step; i++)
        expect_number(steps, i);
    CHECK(fgetc(steps) == EOF, "more than %d steps", step);

    CHECK_EQ(fcntl(shared, F_GETFL), flags[0]);
    CHECK_EQ(fcntl(apart, F_GETFL), flags[1]);
    CHECK_EQ(fcntl(append, F_GETFL), flags[2]);
    CHECK_EQ(fcntl(direct, F_GETFL), flags[3]);
    CHECK_EQ(fcntl(path, F_GETFL), flags[4]);
    CHECK_EQ(fcntl(shared, F_GETFD), 0);
    CHECK_EQ(fcntl(apart, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(read(far, text, 2), 2);
    CHECK(memcmp(text, "45", 2) == 0, "'%.2s'", text);
    CHECK_EQ(write(twin, "x", 1), 1);
    CHECK_EQ(lseek(shared, 0, SEEK_CUR), 7);
    CHECK_EQ(read(apart, text, 10), 3);
    CHECK(memcmp(text, "789", 3) == 0, "'%.3s'", text);
    CHECK_EQ(pread(apart, text, 10, 0), 10);
    CHECK(memcmp(text, "012345x789", 10) == 0, "'%.10s'", text);
    CHECK_EQ(lseek(append, 0, SEEK_SET), 0);
    CHECK_EQ(write(append, "second\n", 7), 7);
    struct stat facts;
    CHECK(fstat(append, &facts) == 0 && facts.st_size == 13, "%lld bytes", (long long)facts.st_size);
    CHECK(fstat(path, &facts) == 0 && facts.st_size == 8192, "%lld bytes", (long long)facts.st_size);
    memset(page, 0, 4096);
    CHECK_EQ(read(direct, page, 4096), 4096);
    CHECK_EQ(memcmp(page, page + 4096, 4096), 0);
    for (int i = 7; i < 3000; i++)
        expect_number(table, i);

    printf("all of it");
    fflush(stdout);
    FILE *logged = fopen(name_of("log"), "r");
    CHECK(fgets(text, sizeof text, logged) && strcmp(text, "into the log, all of it") == 0, "'%s'", text);
    CHECK_EQ(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
    return test_finish("regular");
}

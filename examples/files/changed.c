//#Ranks: 2
//#Cut: hold
//#Shows: a file that is only read, and one that grows until the job is killed (cases of bad-input change the first before the restart)
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    static char table[8192];
    char name[64];
    struct timespec moment = {0, 1000000};
    int step = 0, number;
    test_start(&argc, &argv);
    test_fill(table, sizeof table, 1);
    snprintf(name, sizeof name, "table.%d", test_rank);
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK_EQ(write(fd, table, sizeof table), sizeof table);
    snprintf(name, sizeof name, "steps.%d", test_rank);
    FILE *steps = fopen(name, "w+");
    cut_announce();
    do {
        fprintf(steps, "%d\n", step++);
        fflush(steps);
        nanosleep(&moment, NULL);
    } while (!cut_open());
    rewind(steps);
    for (int i = 0; i < step; i++)
        CHECK(fscanf(steps, "%d\n", &number) == 1 && number == i, "step %d is missing", i);
    CHECK(fgetc(steps) == EOF, "more than %d steps", step);
    return test_finish("changed");
}

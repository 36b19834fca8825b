//#Cut: hold
//#Shows: a parameter study: a job whose files are open at the cut, written over behind it, and finished by copies
#include "../stasis_test.h"

#include <sys/stat.h>

/* Content of a file in the working directory, or a number if there is none. */
static int number_in(const char *name, int otherwise)
{
    int value = otherwise;
    FILE *file = fopen(name, "r");
    if (file) {
        CHECK_EQ(fscanf(file, "%d", &value), 1);
        fclose(file);
    }
    return value;
}

int main(int argc, char **argv)
{
    struct timespec pause = {0, 1000000};
    char name[32], text[64] = "", log[32];
    struct stat facts;
    test_start(&argc, &argv);
    snprintf(name, sizeof name, test_rank ? "result.%d" : "result", test_rank);
    snprintf(log, sizeof log, "closed.%d", test_rank);
    FILE *closed = fopen(log, "w");
    fprintf(closed, "closed at the cut\n");
    fclose(closed);
    int result = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(result >= 0, "%s", name);
    CHECK_EQ(write(result, "begun at 7", 10), 10);
    cut_announce();
    /* A copy has its own `go`. Only the first job is told to overwrite, after its checkpoint. */
    while (access("go", F_OK) != 0 && !cut_open()) {
        if (access("overwrite", F_OK) == 0 && access("ck", F_OK) == 0) {
            CHECK_EQ(pwrite(result, "BEGUN AT 8", 10, 0), 10);
            CHECK_EQ(pwrite(result, " and more", 9, 10), 9);
            closed = fopen(log, "a");
            fprintf(closed, "and more\n");
            fclose(closed);
            cut();
            CHECK_EQ(pwrite(result, "begun at 7", 10, 0), 10);
            CHECK_EQ(ftruncate(result, 10), 0);
            CHECK_EQ(truncate(log, 18), 0);
            break;
        }
        nanosleep(&pause, NULL);
    }
    int parameter = number_in("parameter", -1), sum;
    MPI_OK(MPI_Allreduce(&parameter, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, parameter * test_size);
    CHECK_EQ(pread(result, text, sizeof text - 1, 0), 10);
    CHECK(!strcmp(text, "begun at 7"), "%s holds '%s'", name, text);
    CHECK_EQ(stat(log, &facts), 0);
    CHECK_EQ(facts.st_size, 18);
    snprintf(text, sizeof text, ", went on with %d\n", parameter);
    CHECK_EQ(write(result, text, strlen(text)), strlen(text));
    close(result);
    return test_finish("study");
}

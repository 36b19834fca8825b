/* Holds so many MiB of noise (its argument) in each rank until the harness lets it end: an image that
 * takes a while to write. And each rank has a file open, whose number nobody else may have after a restart. */
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    size_t words = (size_t)atoi(argv[1]) << 17;
    uint64_t *noise = malloc(words * sizeof *noise), word = 1 + (uint64_t)test_rank;
    CHECK(noise != NULL, "no memory");
    for (size_t i = 0; i < words; i++) {
        word ^= word << 13, word ^= word >> 7, word ^= word << 17;
        noise[i] = word;
    }
    char name[32], found[32] = "";
    snprintf(name, sizeof name, "heavy.%d", test_rank);
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0, "no file %s", name);
    CHECK_EQ(write(file, "before ", 7), 7);
    cut();
    CHECK_EQ(write(file, "after", 5), 5);
    CHECK_EQ(pread(file, found, sizeof found, 0), 12);
    CHECK(strcmp(found, "before after") == 0, "%s", found);
    word = 1 + (uint64_t)test_rank;
    for (size_t i = 0; i < words; i++) {
        word ^= word << 13, word ^= word >> 7, word ^= word << 17;
        CHECK(noise[i] == word, "word %zu", i);
    }
    return test_finish_loop("heavy");
}

/* Holds so many MiB of noise (its argument) in each rank until the harness lets it end: an image that
 * takes a while to write. */
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
    cut();
    word = 1 + (uint64_t)test_rank;
    for (size_t i = 0; i < words; i++) {
        word ^= word << 13, word ^= word >> 7, word ^= word << 17;
        CHECK(noise[i] == word, "word %zu", i);
    }
    return test_finish_loop("heavy");
}

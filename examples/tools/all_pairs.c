/* Each rank exchanges a large message with each other one, before the cut and after it, and then ends at once: so the
 * MPI library has connections of all its kinds to close. */
#include "../stasis_test.h"

enum { LENGTH = 100000 };

static void exchange_with_all(uint32_t round)
{
    unsigned char *sent = malloc(LENGTH), *received = malloc(LENGTH);
    CHECK(sent && received, "no memory");
    for (int apart = 1; apart < test_size; apart++) {
        int to = (test_rank + apart) % test_size, from = (test_rank + test_size - apart) % test_size;
        for (size_t i = 0; i < LENGTH; i++)
            sent[i] = test_byte(round + test_rank, i);
        MPI_OK(MPI_Sendrecv(sent, LENGTH, MPI_BYTE, to, 0, received, LENGTH, MPI_BYTE, from, 0, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE));
        for (size_t i = 0; i < LENGTH; i++)
            CHECK_EQ(received[i], test_byte(round + from, i));
    }
    free(sent);
    free(received);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    exchange_with_all(100);
    cut();
    exchange_with_all(200);
    return test_finish("all_pairs");
}

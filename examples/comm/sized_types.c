//#Ranks: 2
//#Mpi: openmpi
//#Cut: hold
//#Variant: openmpi
//#Variant: standard; mpi=mpich-5
//#Shows: named datatypes that another library lacks (MPICH 4 MPI_LOGICAL1, Open MPI 4 MPI_REAL2): size, extent, name, messages, derived datatypes made before the cut, reductions of logicals
#include "../stasis_test.h"

#ifdef MPI_REAL2
enum { LOGICALS = 4, KINDS = 8, PIECES = 3 };
static const int sizes[] = {1, 2, 4, 8, 16, 16, 2, 4};
static const char *const names[] = {"MPI_LOGICAL1", "MPI_LOGICAL2", "MPI_LOGICAL4", "MPI_LOGICAL8",
                                    "MPI_LOGICAL16", "MPI_INTEGER16", "MPI_REAL2", "MPI_COMPLEX4"};
#else
enum { LOGICALS = 4, KINDS = 4, PIECES = 3 };
static const int sizes[] = {1, 2, 4, 8};
static const char *const names[] = {"MPI_LOGICAL1", "MPI_LOGICAL2", "MPI_LOGICAL4", "MPI_LOGICAL8"};
#endif

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Datatype combs[KINDS], both, types[KINDS] = {
        MPI_LOGICAL1, MPI_LOGICAL2, MPI_LOGICAL4, MPI_LOGICAL8,
#ifdef MPI_REAL2
        MPI_LOGICAL16, MPI_INTEGER16, MPI_REAL2, MPI_COMPLEX4,
#endif
    };
    for (int i = 0; i < KINDS; i++) {
        MPI_OK(MPI_Type_vector(PIECES, 1, 2, types[i], &combs[i]));
        MPI_OK(MPI_Type_commit(&combs[i]));
    }
    /* A byte behind the logical, and padding that follows from the alignment of the logical. */
    int blocks[2] = {1, 1};
    MPI_Aint places[2] = {0, 8};
    MPI_Datatype members[2] = {MPI_LOGICAL8, MPI_BYTE};
    MPI_OK(MPI_Type_create_struct(2, blocks, places, members, &both));
    cut();
    for (int i = 0; i < KINDS; i++) {
        int bytes = sizes[i], size, length, integers, addresses, inside, combiner;
        MPI_Aint lb, extent, true_lb, true_extent;
        char name[MPI_MAX_OBJECT_NAME];
        MPI_OK(MPI_Type_size(types[i], &size));
        CHECK_EQ(size, bytes);
        MPI_OK(MPI_Type_get_extent(types[i], &lb, &extent));
        CHECK(lb == 0 && extent == bytes, "lb %ld, extent %ld", (long)lb, (long)extent);
        MPI_OK(MPI_Type_get_true_extent(combs[i], &true_lb, &true_extent));
        CHECK(true_lb == 0 && true_extent == (2 * PIECES - 1) * bytes, "true extent %ld", (long)true_extent);
        MPI_OK(MPI_Type_get_name(types[i], name, &length));
        CHECK(!strcmp(name, names[i]), "%s", name);
        MPI_OK(MPI_Type_get_envelope(types[i], &integers, &addresses, &inside, &combiner));
        CHECK_EQ(combiner, MPI_COMBINER_NAMED);
        int numbers[3];
        MPI_Datatype base;
        MPI_OK(MPI_Type_get_contents(combs[i], 3, 0, 1, numbers, NULL, &base));
        CHECK(base == types[i], "%s", name);

        unsigned char sent[2 * PIECES * 16], received[2 * PIECES * 16], truth[8] = {0}, all[8], some[8];
        for (size_t at = 0; at < sizeof sent; at++)
            sent[at] = test_byte(test_rank, at);
        memset(received, 0, sizeof received);
        MPI_Status status;
        int count;
        MPI_OK(MPI_Sendrecv(sent, 1, combs[i], !test_rank, i, received, 1, combs[i], !test_rank, i,
                            MPI_COMM_WORLD, &status));
        MPI_OK(MPI_Get_elements(&status, combs[i], &count));
        CHECK_EQ(count, PIECES);
        /* MPICH 5.0.2 itself moves a vector of 16 bytes as numbers of extended precision, of which it
         * loses six bytes. */
        for (int at = 0; bytes < 16 && at < (2 * PIECES - 1) * bytes; at++)
            CHECK_EQ(received[at], at / bytes % 2 ? 0 : test_byte(!test_rank, at));
        if (i < LOGICALS) {
            truth[0] = test_rank == 0;
            MPI_OK(MPI_Allreduce(truth, all, 1, types[i], MPI_LAND, MPI_COMM_WORLD));
            MPI_OK(MPI_Allreduce(truth, some, 1, types[i], MPI_LOR, MPI_COMM_WORLD));
            CHECK(all[0] == 0 && some[0] == 1, "%s: %d %d", name, all[0], some[0]);
        }
        MPI_OK(MPI_Type_free(&combs[i]));
    }
    MPI_Aint lb, extent;
    MPI_OK(MPI_Type_get_extent(both, &lb, &extent));
    CHECK_EQ(extent, 16);
    MPI_OK(MPI_Type_free(&both));
    return test_finish("sized_types");
}

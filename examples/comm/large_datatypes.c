//#Ranks: 2
//#Mpi: mpich
//#Cut: hold
//#Shows: datatypes of large counts, those beyond an int too: made before the cut, used and asked about after it
#include "../stasis_test.h"

#include <sys/mman.h>

enum { KINDS = 11, CALLS = 2 * KINDS };

/* A number that fits an int, and one that does not. */
static const MPI_Count FAR[2] = {1000, 3000000000};

static MPI_Datatype types[CALLS];
static const char *names[KINDS] = {
    "contiguous", "vector",         "hvector", "indexed",  "hindexed", "indexed_block",
    "hindexed_block", "struct", "subarray", "resized", "dup",
};

static void make(MPI_Datatype *made, MPI_Count far)
{
    MPI_Count lengths[2] = {2, 3}, places[2] = {0, far}, sizes[2] = {2, far};
    MPI_Count subsizes[2] = {2, 3}, starts[2] = {0, far - 5};
    MPI_Datatype both[2] = {MPI_CHAR, MPI_INT16_T};
    MPI_OK(MPI_Type_contiguous_c(far, MPI_CHAR, &made[0]));
    MPI_OK(MPI_Type_vector_c(2, 3, far, MPI_CHAR, &made[1]));
    MPI_OK(MPI_Type_create_hvector_c(2, 3, far, MPI_INT16_T, &made[2]));
    MPI_OK(MPI_Type_indexed_c(2, lengths, places, MPI_CHAR, &made[3]));
    MPI_OK(MPI_Type_create_hindexed_c(2, lengths, places, MPI_INT16_T, &made[4]));
    MPI_OK(MPI_Type_create_indexed_block_c(2, 4, places, MPI_CHAR, &made[5]));
    MPI_OK(MPI_Type_create_hindexed_block_c(2, 4, places, MPI_INT16_T, &made[6]));
    MPI_OK(MPI_Type_create_struct_c(2, lengths, places, both, &made[7]));
    MPI_OK(MPI_Type_create_subarray_c(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_CHAR, &made[8]));
    MPI_OK(MPI_Type_create_resized_c(MPI_CHAR, 0, far, &made[9]));
    MPI_OK(MPI_Type_dup(made[1], &made[10]));
    for (int i = 0; i < KINDS; i++)
        MPI_OK(MPI_Type_commit(&made[i]));
}

static void check_bounds(const char *name, MPI_Datatype type, MPI_Count size, MPI_Count extent,
                         MPI_Count true_lb, MPI_Count true_extent)
{
    MPI_Count got, lb, ub;
    int small;
    MPI_OK(MPI_Type_size_c(type, &got));
    CHECK(got == size, "%s: size %lld, not %lld", name, (long long)got, (long long)size);
    MPI_OK(MPI_Type_size(type, &small));
    CHECK(small == (size > INT32_MAX ? MPI_UNDEFINED : (int)size), "%s: size %d", name, small);
    MPI_OK(MPI_Type_get_extent_c(type, &lb, &ub));
    CHECK(lb == 0 && ub == extent, "%s: extent %lld from %lld, not %lld", name, (long long)ub,
          (long long)lb, (long long)extent);
    MPI_OK(MPI_Type_get_true_extent_c(type, &lb, &ub));
    CHECK(lb == true_lb && ub == true_extent, "%s: true extent %lld from %lld", name,
          (long long)ub, (long long)lb);
}

static void check_all_bounds(MPI_Datatype *made, MPI_Count far)
{
    struct { MPI_Count size, extent, lb, span; } const all[KINDS] = {
        {far, far, 0, far},
        {6, far + 3, 0, far + 3},
        {12, far + 6, 0, far + 6},
        {5, far + 3, 0, far + 3},
        {10, far + 6, 0, far + 6},
        {8, far + 4, 0, far + 4},
        {16, far + 8, 0, far + 8},
        {8, far + 6, 0, far + 6},
        {6, 2 * far, far - 5, far + 3},
        {1, far, 0, 1},
        {6, far + 3, 0, far + 3},
    };
    for (int i = 0; i < KINDS; i++)
        check_bounds(names[i], made[i], all[i].size, all[i].extent, all[i].lb, all[i].span);
}

static void check_contents(MPI_Datatype *made, MPI_Count far)
{
    static const int counts[KINDS] = {1, 3, 3, 5, 5, 4, 4, 5, 6, 2, 0};
    static const int integers[KINDS] = {0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0};
    for (int i = 0; i < KINDS; i++) {
        MPI_Count ni, na, nc, nd, got[6];
        MPI_Datatype old[2];
        MPI_Aint addresses[1];
        int combiner, ints[2], named;
        MPI_OK(MPI_Type_get_envelope_c(made[i], &ni, &na, &nc, &nd, &combiner));
        CHECK(ni == integers[i] && na == 0 && nc == counts[i] && nd == (i == 7 ? 2 : 1),
              "%s: %lld, %lld, %lld, %lld", names[i], (long long)ni, (long long)na, (long long)nc,
              (long long)nd);
        test_add(&nc, sizeof nc);
        MPI_OK(MPI_Type_get_contents_c(made[i], 2, 1, 6, 2, ints, addresses, got, old));
        if (i == 1) {
            CHECK_EQ(combiner, MPI_COMBINER_VECTOR);
            CHECK_EQ(got[0], 2);
            CHECK_EQ(got[1], 3);
            CHECK_EQ(got[2], far);
            CHECK(old[0] == MPI_CHAR, "another datatype");
        } else if (i == 8) {
            CHECK_EQ(ints[0], 2);
            CHECK_EQ(ints[1], MPI_ORDER_C);
            CHECK_EQ(got[1], far);
            CHECK_EQ(got[5], far - 5);
        }
        MPI_OK(MPI_Type_get_envelope_c(old[0], &ni, &na, &nc, &nd, &named));
        if (named != MPI_COMBINER_NAMED)
            MPI_OK(MPI_Type_free(&old[0]));
    }
}

/* Few bytes, some of them far away: sent packed, received into place. */
static void check_data(MPI_Datatype *made, MPI_Count far)
{
    int peer = 1 - test_rank;
    char packed[64];
    size_t room = 2 * far + 64;
    char *memory = mmap(NULL, room, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED, "no address space");
    for (int i = 1; i < KINDS; i++) {
        MPI_Count size, position = 0, needed;
        MPI_OK(MPI_Type_size_c(made[i], &size));
        test_fill(packed, size, i + test_rank);
        MPI_OK(MPI_Unpack_c(packed, size, &position, memory, 1, made[i], MPI_COMM_WORLD));
        CHECK_EQ(position, size);
        MPI_OK(MPI_Sendrecv_replace_c(memory, 1, made[i], peer, i, peer, i, MPI_COMM_WORLD,
                                      MPI_STATUS_IGNORE));
        MPI_OK(MPI_Pack_size_c(1, made[i], MPI_COMM_WORLD, &needed));
        CHECK(needed >= size, "%s: %lld bytes to pack", names[i], (long long)needed);
        position = 0;
        memset(packed, 0, sizeof packed);
        MPI_OK(MPI_Pack_c(memory, 1, made[i], packed, sizeof packed, &position, MPI_COMM_WORLD));
        test_verify(packed, size, i + peer);
    }
    /* Where it belongs: the second block of the vector. */
    test_fill(packed, 6, 77);
    MPI_Count position = 0;
    MPI_OK(MPI_Unpack_c(packed, 6, &position, memory, 1, made[1], MPI_COMM_WORLD));
    CHECK(memcmp(memory, packed, 3) == 0 && memcmp(memory + far, packed + 3, 3) == 0,
          "elsewhere");
    CHECK_EQ(munmap(memory, room), 0);
}

static void check_external(void)
{
    int32_t numbers[4] = {1, -2, 3, -4}, back[4];
    char packed[64];
    MPI_Count size, position = 0;
    MPI_OK(MPI_Pack_external_size_c("external32", 4, MPI_INT32_T, &size));
    CHECK_EQ(size, 16);
    MPI_OK(MPI_Pack_external_c("external32", numbers, 4, MPI_INT32_T, packed, sizeof packed,
                               &position));
    CHECK_EQ(position, 16);
    CHECK_EQ(packed[3], 1);
    position = 0;
    MPI_OK(MPI_Unpack_external_c("external32", packed, 16, &position, back, 4, MPI_INT32_T));
    CHECK(memcmp(numbers, back, sizeof back) == 0, "other numbers");
}

int main(int argc, char **argv)
{
    MPI_Datatype pieces, old;
    test_start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < 2; i++)
        make(types + i * KINDS, FAR[i]);
    /* Made of what the application has freed. */
    MPI_OK(MPI_Type_contiguous_c(FAR[1], MPI_INT32_T, &old));
    MPI_OK(MPI_Type_vector_c(FAR[1], 2, 3, MPI_CHAR, &pieces));
    MPI_OK(MPI_Type_free(&old));
    MPI_OK(MPI_Type_commit(&pieces));
    check_bounds("pieces", pieces, 2 * FAR[1], 3 * FAR[1] - 1, 0, 3 * FAR[1] - 1);
    cut();
    check_bounds("pieces", pieces, 2 * FAR[1], 3 * FAR[1] - 1, 0, 3 * FAR[1] - 1);
    for (int i = 0; i < 2; i++) {
        check_all_bounds(types + i * KINDS, FAR[i]);
        check_contents(types + i * KINDS, FAR[i]);
        check_data(types + i * KINDS, FAR[i]);
    }
    check_external();
    /* What was made with large counts has no answer in ints. */
    int integers, addresses, datatypes, combiner;
    CHECK(MPI_Type_get_envelope(types[0], &integers, &addresses, &datatypes, &combiner) !=
              MPI_SUCCESS, "an envelope in ints");
    for (int i = 0; i < CALLS; i++)
        MPI_OK(MPI_Type_free(&types[i]));
    MPI_OK(MPI_Type_free(&pieces));
    return test_finish("large_datatypes");
}

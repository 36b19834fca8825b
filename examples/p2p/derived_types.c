//#Ranks: 2
//#Cut: hold
//#Shows: messages of derived datatypes in flight at the cut, received with another layout than they were sent
//#Variant: small; matrix=full
//#Variant: large
#include "../stasis_test.h"

typedef struct {
    char tag;
    double x[3];
    int id;
} particle;

enum { KINDS = 9 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int n = test_is(argc, argv, "large") ? 20000 : 20;
    MPI_Datatype types[KINDS], particle_type, inner, resized;
    int side = 3 * n;

    /* Each describes n or 2n ints inside a field of `side` ints. */
    int *lengths = malloc(n * sizeof *lengths), *offsets = malloc(n * sizeof *offsets);
    MPI_Aint *bytes = malloc(n * sizeof *bytes);
    for (int i = 0; i < n; i++) {
        lengths[i] = 1 + i % 2;
        offsets[i] = 3 * (n - 1 - i);
        bytes[i] = (MPI_Aint)sizeof(int) * 3 * i;
    }
    MPI_OK(MPI_Type_contiguous(n, MPI_INT, &types[0]));
    MPI_OK(MPI_Type_vector(n, 1, 3, MPI_INT, &types[1]));
    MPI_OK(MPI_Type_create_hvector(n, 2, 3 * sizeof(int), MPI_INT, &types[2]));
    MPI_OK(MPI_Type_indexed(n, lengths, offsets, MPI_INT, &types[3]));
    MPI_OK(MPI_Type_create_hindexed(n, lengths, bytes, MPI_INT, &types[4]));
    MPI_OK(MPI_Type_create_indexed_block(n, 2, offsets, MPI_INT, &types[5]));
    MPI_OK(MPI_Type_create_hindexed_block(n, 1, bytes, MPI_INT, &types[6]));
    int sizes[2] = {3, n}, subsizes[2] = {2, n - 1}, starts[2] = {1, 1};
    MPI_OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &types[7]));
    MPI_OK(MPI_Type_vector(1, 1, 1, MPI_INT, &inner));
    MPI_OK(MPI_Type_create_resized(inner, 0, 3 * sizeof(int), &resized));
    MPI_OK(MPI_Type_contiguous(n, resized, &types[8]));
    MPI_OK(MPI_Type_free(&inner));
    MPI_OK(MPI_Type_free(&resized));
    for (int k = 0; k < KINDS; k++)
        MPI_OK(MPI_Type_commit(&types[k]));

    int struct_lengths[3] = {1, 3, 1};
    MPI_Aint struct_offsets[3] = {offsetof(particle, tag), offsetof(particle, x), offsetof(particle, id)};
    MPI_Datatype struct_types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, raw;
    MPI_OK(MPI_Type_create_struct(3, struct_lengths, struct_offsets, struct_types, &raw));
    MPI_OK(MPI_Type_create_resized(raw, 0, sizeof(particle), &particle_type));
    MPI_OK(MPI_Type_free(&raw));
    MPI_OK(MPI_Type_commit(&particle_type));

    int *field[KINDS];
    for (int k = 0; k < KINDS; k++) {
        field[k] = malloc((side + 3) * sizeof(int));
        for (int i = 0; i < side + 3; i++)
            field[k][i] = test_rank == 0 ? 100000 * k + i : -1;
    }
    particle *particles = calloc(n, sizeof *particles);

    if (test_rank == 0) {
        MPI_Request requests[KINDS + 1];
        for (int k = 0; k < KINDS; k++)
            MPI_OK(MPI_Isend(field[k], 1, types[k], 1, k, MPI_COMM_WORLD, &requests[k]));
        for (int i = 0; i < n; i++)
            particles[i] = (particle){(char)i, {i, i + 0.5, -i}, 7 * i};
        MPI_OK(MPI_Isend(particles, n, particle_type, 1, KINDS, MPI_COMM_WORLD, &requests[KINDS]));
        cut();
        MPI_OK(MPI_Waitall(KINDS + 1, requests, MPI_STATUSES_IGNORE));
    } else {
        cut();
        MPI_Status status;
        int elements, count;
        for (int k = 0; k < KINDS; k++) {
            int size;
            MPI_OK(MPI_Type_size(types[k], &size));
            int ints = size / (int)sizeof(int);
            /* Even kinds arrive as plain ints, odd ones in the layout they left. */
            int *plain = malloc(ints * sizeof(int));
            if (k % 2 == 0) {
                MPI_OK(MPI_Recv(plain, ints, MPI_INT, 0, k, MPI_COMM_WORLD, &status));
                MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
                CHECK_EQ(count, ints);
            } else {
                MPI_OK(MPI_Recv(field[k], 1, types[k], 0, k, MPI_COMM_WORLD, &status));
                MPI_OK(MPI_Get_count(&status, types[k], &count));
                CHECK_EQ(count, 1);
                int position = 0;
                MPI_OK(MPI_Pack(field[k], 1, types[k], plain, size, &position, MPI_COMM_SELF));
                CHECK_EQ(position, size);
                for (int i = 0; i < side + 3; i++)
                    CHECK(field[k][i] == -1 || field[k][i] == 100000 * k + i, "kind %d: field[%d] = %d", k, i,
                          field[k][i]);
            }
            MPI_OK(MPI_Get_elements(&status, types[k], &elements));
            CHECK_EQ(elements, ints);
            /* What the layout says, computed by hand. */
            int at = 0;
            for (int i = 0; i < n; i++)
                switch (k) {
                case 0: CHECK_EQ(plain[at++], i); break;
                case 1: CHECK_EQ(plain[at++], 100000 + 3 * i); break;
                case 2: for (int j = 0; j < 2; j++) CHECK_EQ(plain[at++], 200000 + 3 * i + j); break;
                case 3: for (int j = 0; j < lengths[i]; j++) CHECK_EQ(plain[at++], 300000 + offsets[i] + j); break;
                case 4: for (int j = 0; j < lengths[i]; j++) CHECK_EQ(plain[at++], 400000 + 3 * i + j); break;
                case 5: for (int j = 0; j < 2; j++) CHECK_EQ(plain[at++], 500000 + offsets[i] + j); break;
                case 6: CHECK_EQ(plain[at++], 600000 + 3 * i); break;
                case 7: if (i < 2) for (int j = 0; j < n - 1; j++) CHECK_EQ(plain[at++], 700000 + (i + 1) * n + 1 + j); break;
                case 8: CHECK_EQ(plain[at++], 800000 + 3 * i); break;
                }
            CHECK_EQ(at, ints);
            test_add(plain, size);
            free(plain);
        }
        MPI_OK(MPI_Recv(particles, n, particle_type, 0, KINDS, MPI_COMM_WORLD, &status));
        MPI_OK(MPI_Get_elements(&status, particle_type, &elements));
        CHECK_EQ(elements, 5 * n);
        for (int i = 0; i < n; i++)
            CHECK(particles[i].tag == (char)i && particles[i].x[0] == i && particles[i].x[1] == i + 0.5 &&
                      particles[i].x[2] == -i && particles[i].id == 7 * i,
                  "particle %d", i);
    }
    for (int k = 0; k < KINDS; k++)
        MPI_OK(MPI_Type_free(&types[k]));
    MPI_OK(MPI_Type_free(&particle_type));
    return test_finish(argv[1]);
}

/* Sums, and one product of matrices, which is not commutative: the 7th of the reductions. Every rank prints what it has,
 * so that a wrong result is seen by whoever reads the output; the program itself notices nothing.
 *
 * Over Open MPI with
 *   OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_allreduce_algorithm=4
 * the library reduces in a ring, for which an operation must be commutative: a setting that is right for most programs
 * and wrong for this one. */
#include <mpi.h>
#include <stdio.h>

enum { STEPS = 12, PRODUCT = 7, MATRICES = 8 };

typedef struct {
    long a, b, c, d;
} matrix;

static void multiply(void *in, void *inout, int *len, MPI_Datatype *type)
{
    matrix *left = in, *right = inout;
    (void)type;
    for (int i = 0; i < *len; i++) {
        matrix x = left[i], y = right[i];
        right[i] = (matrix){(x.a * y.a + x.b * y.c) % 10007, (x.a * y.b + x.b * y.d) % 10007,
                            (x.c * y.a + x.d * y.c) % 10007, (x.c * y.b + x.d * y.d) % 10007};
    }
}

int main(int argc, char **argv)
{
    int rank;
    long sum = 0;
    matrix own[MATRICES], product[MATRICES];
    MPI_Datatype type;
    MPI_Op op;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_contiguous(4, MPI_LONG, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(multiply, 0, &op);
    for (int step = 1; step <= STEPS; step++) {
        long part = step * (rank + 1), all;
        if (step == PRODUCT) {
            for (int i = 0; i < MATRICES; i++)
                own[i] = (matrix){rank + 1, i + 1, i + rank, 2};
            MPI_Allreduce(own, product, MATRICES, type, op, MPI_COMM_WORLD);
        } else {
            MPI_Allreduce(&part, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
            sum += all;
        }
        MPI_Bcast(&sum, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; rank == 0 && i < MATRICES; i++)
        printf("sum %ld, product %d: %ld %ld %ld %ld\n", sum, i, product[i].a, product[i].b, product[i].c, product[i].d);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
    MPI_Finalize();
    return 0;
}

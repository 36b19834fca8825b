//#Ranks: 2
//#Timeout: 300
//#Shows: a message of more than 2 GiB in count x size: under way at the cut, and posted at the cut
//#Variant: under_way; cut=hold; modes=restart, migrate
//#Variant: posted; cut=hold; modes=continue, migrate
#include "../stasis_test.h"

/* More than INT_MAX bytes. All are zero but the first of every MILLION, so that neither the sender nor an image
 * takes as much. */
enum { N = 280000000, MILLION = 1000000 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK(argc > 1, "which variant?");
    int posted = test_is(argc, argv, "posted"), count;
    MPI_Count elements;
    MPI_Request request;
    MPI_Status status;
    double *data;
    if (test_rank == 1) {
        data = calloc(N, sizeof *data);
        for (int i = 0; i < N; i += MILLION)
            data[i] = i + 0.5;
        if (posted)
            cut();
        MPI_OK(MPI_Isend(data, N, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD, &request));
        if (!posted)
            cut();
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        if (!posted)
            cut();
        data = calloc(N, sizeof *data);
        if (posted) {
            MPI_OK(MPI_Irecv(data, N, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD, &request));
            cut();
        } else {
            MPI_OK(MPI_Probe(1, 5, MPI_COMM_WORLD, &status));
            MPI_OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
            CHECK_EQ(count, N);
            MPI_OK(MPI_Irecv(data, N, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD, &request));
        }
        MPI_OK(MPI_Wait(&request, &status));
        MPI_OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
        CHECK_EQ(count, N);
        MPI_OK(MPI_Get_elements_x(&status, MPI_DOUBLE, &elements));
        CHECK_EQ(elements, N);
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, MPI_UNDEFINED);
        for (int i = 0; i < N; i++)
            CHECK(data[i] == (i % MILLION ? 0 : i + 0.5), "entry %d is %g", i, data[i]);
    }
    free(data);
    return test_finish(argv[1]);
}

/* The program whose calls are counted: some before the cut, some after it. */
#include "../stasis_test.h"

static void exchange(MPI_Comm comm, int rounds)
{
    int next = (test_rank + 1) % test_size, before = (test_rank + test_size - 1) % test_size;
    long sent[64], got[64], sum = 0;
    for (int round = 0; round < rounds; round++) {
        MPI_Request both[2];
        test_fill(sent, sizeof sent, 100 * round + test_rank);
        MPI_OK(MPI_Irecv(got, 64, MPI_LONG, before, round, comm, &both[0]));
        MPI_OK(MPI_Isend(sent, 64, MPI_LONG, next, round, comm, &both[1]));
        MPI_OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
        test_verify(got, sizeof got, 100 * round + before);
        if (test_rank == 0)
            MPI_OK(MPI_Send(sent, 64, MPI_LONG, next, 1000, comm));
        if (test_rank == 1)
            MPI_OK(MPI_Recv(got, 64, MPI_LONG, before, 1000, comm, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Allreduce(&got[0], &sum, 1, MPI_LONG, MPI_BXOR, comm));
        test_add(&sum, sizeof sum);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm copy;
    MPI_Datatype pair;
    /* A program that becomes another one keeps what is preloaded. */
    if (test_is(argc, argv, "exec")) {
        char *again[] = {argv[0], NULL};
        execv("/proc/self/exe", again);
        test_fail(__FILE__, __LINE__, "execv returned");
    }
    test_start(&argc, &argv);
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    MPI_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    MPI_OK(MPI_Type_commit(&pair));
    exchange(copy, 5);
    MPI_Pcontrol(0);
    exchange(copy, 3);
    cut();
    exchange(copy, 3);
    MPI_Pcontrol(1);
    exchange(copy, 7);
    MPI_OK(MPI_Barrier(copy));
    MPI_OK(MPI_Type_free(&pair));
    MPI_OK(MPI_Comm_free(&copy));
    return test_finish("profile");
}

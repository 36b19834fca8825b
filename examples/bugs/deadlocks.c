/* Deadlocks of seven kinds, chosen by the first argument. Four ranks announce their cut, go on when the harness says
 * so, and never come to an end. `stasis explain` must say why. */
#include "../stasis_test.h"

enum { FEW = 100, MANY = 1 << 20 };

static int many[MANY];

/* Rank 0 and rank 1 receive from each other. Rank 1 has three messages that it does not ask for. The others wait for
 * both in a barrier. */
static void receives(void)
{
    double unasked = 1;
    if (test_rank > 1) {
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        return;
    }
    for (int i = 0; i < 3 && test_rank == 0; i++)
        MPI_OK(MPI_Send(&unasked, 1, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD));
    MPI_OK(MPI_Recv(many, FEW, MPI_INT, 1 - test_rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Send(many, FEW, MPI_INT, 1 - test_rank, 5, MPI_COMM_WORLD));
}

/* Rank 0 receives from any rank what nobody sends. The others wait for it in a barrier. */
static void wildcard(void)
{
    MPI_Comm workers;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &workers));
    MPI_OK(MPI_Comm_set_name(workers, "workers"));
    if (test_rank == 0)
        MPI_OK(MPI_Recv(many, FEW, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, workers, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Ranks 0 and 1 send to each other in synchronous mode, ranks 2 and 3 more than a library takes without a receive. */
static void sends(void)
{
    int peer = test_rank ^ 1;
    if (test_rank < 2)
        MPI_OK(MPI_Ssend(many, FEW, MPI_INT, peer, 5, MPI_COMM_WORLD));
    else
        MPI_OK(MPI_Send(many, MANY, MPI_INT, peer, 6, MPI_COMM_WORLD));
    MPI_OK(MPI_Recv(many, MANY, MPI_INT, peer, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* Rank 3 waits for a message that rank 0 sends after the operation in which all others wait for rank 3. */
static void member(void)
{
    int sum = 0;
    if (test_rank == 3)
        MPI_OK(MPI_Recv(many, FEW, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    if (test_rank == 0)
        MPI_OK(MPI_Send(many, FEW, MPI_INT, 3, 3, MPI_COMM_WORLD));
}

/* The ranks come to operations over two communicators in two orders. */
static void orders(void)
{
    MPI_Comm first, second;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    MPI_OK(MPI_Comm_set_name(first, "first"));
    MPI_OK(MPI_Comm_set_name(second, "second"));
    MPI_OK(MPI_Barrier(test_rank < 2 ? first : second));
    MPI_OK(MPI_Barrier(test_rank < 2 ? second : first));
}

/* Rank 3 is in another operation than all others. */
static void mismatch(void)
{
    int sum = 0;
    if (test_rank == 3)
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    else
        MPI_OK(MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    /* Whoever gets here waits for the others. */
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Rank 0 waits for a message of a rank that has come to its end. */
static void finalize(void)
{
    if (test_rank == 0)
        MPI_OK(MPI_Recv(many, FEW, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } kinds[] = {
        {"receives", receives}, {"wildcard", wildcard}, {"sends", sends},       {"member", member},
        {"orders", orders},     {"mismatch", mismatch}, {"finalize", finalize},
    };
    test_start(&argc, &argv);
    cut();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (argc > 1 && strcmp(argv[1], kinds[i].name) == 0)
            kinds[i].run();
    return test_finish("deadlocks");
}

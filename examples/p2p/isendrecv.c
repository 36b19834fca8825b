//#Ranks: 3
//#Mpi: mpich
//#Shows: MPI_Isendrecv and MPI_Isendrecv_replace of small and large messages: under way at the cut, with the message there and with the other side late
//#Variant: late; cut=hold
//#Variant: both; cut=hold
//#Variant: loop; cut=loop; modes=plain, continue, restart, migrate, cycle
#include "../stasis_test.h"

enum { SMALL = 100, BIG = 400000, KINDS = 8 };

static char out[KINDS][BIG], in[KINDS][BIG];
static MPI_Request requests[KINDS];

static int bytes_of(int kind) { return kind % 2 ? BIG : SMALL; }
static uint32_t seed(int rank, int kind, int step) { return (uint32_t)(1000 * step + 10 * kind + rank); }

/* Round the ring: to the next rank, from the one before. */
static void start(int kind, int step)
{
    int to = (test_rank + 1) % test_size, from = (test_rank + test_size - 1) % test_size, n = bytes_of(kind);
    MPI_Request *request = &requests[kind];
    test_fill(out[kind], (size_t)n, seed(test_rank, kind, step));
    memcpy(in[kind], out[kind], (size_t)n);
    switch (kind / 2) {
    case 0:
        MPI_OK(MPI_Isendrecv(out[kind], n, MPI_BYTE, to, kind, in[kind], n, MPI_BYTE, from, kind, MPI_COMM_WORLD,
                             request));
        break;
    case 1:
        MPI_OK(MPI_Isendrecv_replace(in[kind], n, MPI_BYTE, to, kind, from, kind, MPI_COMM_WORLD, request));
        break;
    case 2:
        MPI_OK(MPI_Isendrecv_c(out[kind], n, MPI_BYTE, to, kind, in[kind], n, MPI_BYTE, MPI_ANY_SOURCE, kind,
                               MPI_COMM_WORLD, request));
        break;
    default:
        MPI_OK(MPI_Isendrecv_replace_c(in[kind], n / 4, MPI_INT, to, kind, from, kind, MPI_COMM_WORLD, request));
    }
}

/* Not by the status, which MPICH 4.0 leaves empty. */
static void check(int kind, int step)
{
    int from = (test_rank + test_size - 1) % test_size;
    test_verify(in[kind], (size_t)bytes_of(kind), seed(from, kind, step));
}

/* To oneself, and of nothing. */
static void corners(void)
{
    int mine = test_rank, other = (test_rank + 1) % test_size;
    MPI_Request pair[2];
    MPI_OK(MPI_Isendrecv_replace(&mine, 1, MPI_INT, test_rank, 9, test_rank, 9, MPI_COMM_WORLD, &pair[0]));
    MPI_OK(MPI_Isendrecv(NULL, 0, MPI_INT, other, 9, NULL, 0, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &pair[1]));
    MPI_OK(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
    CHECK_EQ(mine, test_rank);
}

int main(int argc, char **argv)
{
    int flag = 0, index, loops = test_is(argc, argv, "loop");
    test_start(&argc, &argv);
    if (loops) {
        for (int step = 0; cut_more(step, 20, MPI_COMM_WORLD); step++) {
            for (int kind = 0; kind < KINDS; kind++)
                start(kind, step);
            if (step % 2) {
                MPI_OK(MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE));
            } else {
                for (int left = KINDS; left > 0; left--)
                    MPI_OK(MPI_Waitany(KINDS, requests, &index, MPI_STATUS_IGNORE));
            }
            for (int kind = 0; kind < KINDS; kind++)
                check(kind, step);
        }
    } else {
        int waits = test_is(argc, argv, "late") && test_rank == 0;
        for (int kind = 0; !waits && kind < KINDS; kind++)
            start(kind, 1);
        cut();
        for (int kind = 0; waits && kind < KINDS; kind++)
            start(kind, 1);
        while (!flag)
            MPI_OK(MPI_Testall(KINDS, requests, &flag, MPI_STATUSES_IGNORE));
        for (int kind = 0; kind < KINDS; kind++) {
            CHECK(requests[kind] == MPI_REQUEST_NULL, "request %d is still there", kind);
            check(kind, 1);
        }
    }
    corners();
    return loops ? test_finish_loop("isendrecv") : test_finish("isendrecv");
}

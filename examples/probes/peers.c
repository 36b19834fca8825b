//#Ranks: 2
//#Shows: the eleven situations in which another transparent checkpointer for MPI was tried; it passed the last two
//#Variant: p01_eager_status_ignore; cut=hold; matrix=full
//#Variant: p02_eager_vector; cut=hold; matrix=full
//#Variant: p03_probe_first; cut=hold; matrix=full
//#Variant: p04_pending_rendezvous; cut=hold; matrix=full
//#Variant: p05_cart_shift; cut=hold; matrix=full
//#Variant: p06_pending_ibcast; cut=pending; matrix=full
//#Variant: p07_errors_return; cut=hold; matrix=full
//#Variant: p08_mremap_realloc; cut=none; modes=plain; matrix=full
//#Variant: p09_vector_of_pairs; cut=hold; matrix=full
//#Variant: p10_pending_irecv; cut=hold; matrix=full
//#Variant: p11_early_in_barrier; cut=pending; matrix=full
//#Variant: p11_early_in_barrier_4; cut=pending; ranks=4; matrix=full
#include "../stasis_test.h"

#include <sys/mman.h>

/* An eager message in flight at the cut, received without a status. */
static void p01(void)
{
    char bytes[64];
    MPI_Request request;
    if (test_rank == 0) {
        test_fill(bytes, sizeof bytes, 1);
        MPI_OK(MPI_Isend(bytes, sizeof bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
        cut();
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        cut();
        MPI_OK(MPI_Recv(bytes, sizeof bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(bytes, sizeof bytes, 1);
    }
}

/* The same into a vector: what lies between the blocks must stay. */
static void p02(void)
{
    int field[40];
    MPI_Datatype vector;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_OK(MPI_Type_vector(10, 2, 4, MPI_INT, &vector));
    MPI_OK(MPI_Type_commit(&vector));
    for (int i = 0; i < 40; i++)
        field[i] = test_rank == 0 ? i : -i;
    if (test_rank == 0)
        MPI_OK(MPI_Isend(field, 1, vector, 1, 0, MPI_COMM_WORLD, &request));
    cut();
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (test_rank == 1) {
        MPI_OK(MPI_Recv(field, 1, vector, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < 40; i++)
            CHECK_EQ(field[i], i % 4 < 2 ? i : -i);
    }
    MPI_OK(MPI_Type_free(&vector));
}

/* The same with a probe before the receive. */
static void p03(void)
{
    int value = 99, count;
    MPI_Status status;
    MPI_Request request = MPI_REQUEST_NULL;
    if (test_rank == 0)
        MPI_OK(MPI_Isend(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &request));
    cut();
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (test_rank == 1) {
        value = 0;
        MPI_OK(MPI_Probe(0, 7, MPI_COMM_WORLD, &status));
        MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK_EQ(count, 1);
        MPI_OK(MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &status));
        CHECK_EQ(value, 99);
    }
}

/* A rendezvous send that nobody has answered at the cut. */
static void p04(void)
{
    static char bytes[4 << 20];
    MPI_Request request;
    if (test_rank == 0) {
        test_fill(bytes, sizeof bytes, 4);
        MPI_OK(MPI_Isend(bytes, sizeof bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
        cut();
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        cut();
        MPI_OK(MPI_Recv(bytes, sizeof bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(bytes, sizeof bytes, 4);
    }
}

/* A Cartesian communicator made before the cut, asked after it. */
static void p05(void)
{
    MPI_Comm cart;
    int dims[1] = {2}, periods[1] = {1}, from = -1, to = -1;
    MPI_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &cart));
    cut();
    MPI_OK(MPI_Cart_shift(cart, 0, 1, &from, &to));
    CHECK(from == 1 - test_rank && to == 1 - test_rank, "from %d to %d", from, to);
    MPI_OK(MPI_Comm_free(&cart));
}

/* A broadcast that the root has initiated and the other rank has not. */
static void p06(void)
{
    int value = test_rank == 0 ? 31 : 0;
    MPI_Request request;
    if (test_rank == 1)
        cut();
    MPI_OK(MPI_Ibcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, &request));
    if (test_rank == 0)
        cut();
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(value, 31);
}

/* MPI_ERRORS_RETURN on a duplicate. */
static void p07(void)
{
    MPI_Comm dup;
    int value = 0, class = 0;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MPI_OK(MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN));
    cut();
    int code = MPI_Send(&value, 1, MPI_INT, 1000, 0, dup);
    CHECK(code != MPI_SUCCESS, "no error");
    MPI_Error_class(code, &class);
    CHECK_EQ(class, MPI_ERR_RANK);
    MPI_OK(MPI_Comm_free(&dup));
}

/* mremap and a large realloc, without any checkpoint. */
static void p08(void)
{
    size_t mb = 1 << 20;
    char *mapped = mmap(NULL, mb, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    test_fill(mapped, mb, 1);
    mapped = mremap(mapped, mb, 64 * mb, MREMAP_MAYMOVE);
    CHECK(mapped != MAP_FAILED, "mremap");
    test_verify(mapped, mb, 1);
    char *heap = malloc(300 * mb);
    test_fill(heap, mb, 2);
    memset(heap + mb, 5, 299 * mb);
    heap = realloc(heap, 600 * mb);
    CHECK(heap != NULL, "realloc");
    test_verify(heap, mb, 2);
    memset(heap + 300 * mb, 6, 300 * mb);
    for (size_t i = mb; i < 600 * mb; i += 511)
        CHECK_EQ(heap[i], i < 300 * mb ? 5 : 6);
    test_verify(mapped, mb, 1);
    free(heap);
    CHECK_EQ(munmap(mapped, 64 * mb), 0);
}

/* A vector counts in extents, not in sizes: MPI_DOUBLE_INT is 12 bytes in 16. */
static void p09(void)
{
    MPI_Datatype vector;
    MPI_Aint lb, extent;
    MPI_OK(MPI_Type_vector(3, 1, 1, MPI_DOUBLE_INT, &vector));
    MPI_OK(MPI_Type_commit(&vector));
    MPI_OK(MPI_Type_get_extent(vector, &lb, &extent));
    CHECK_EQ(extent, 48);
    struct { double value; int place; } out[3], in[3];
    for (int i = 0; i < 3; i++) {
        out[i].value = i + 0.5 + test_rank;
        out[i].place = i;
    }
    MPI_Request request;
    MPI_OK(MPI_Isend(out, 1, vector, 1 - test_rank, 0, MPI_COMM_WORLD, &request));
    cut();
    MPI_OK(MPI_Type_get_extent(vector, &lb, &extent));
    CHECK_EQ(extent, 48);
    MPI_OK(MPI_Recv(in, 1, vector, 1 - test_rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 3; i++)
        CHECK(in[i].value == i + 1.5 - test_rank && in[i].place == i, "pair %d", i);
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Type_free(&vector));
}

/* A receive posted before the cut, its message sent after it. */
static void p10(void)
{
    int value = test_rank == 0 ? 12 : 0;
    MPI_Request request;
    if (test_rank == 1) {
        MPI_OK(MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request));
        cut();
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(value, 12);
    } else {
        cut();
        MPI_OK(MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
    }
}

/* Rank 0 waits in a barrier for the others. */
static void p11(void)
{
    if (test_rank == 0)
        cut_announce();
    else
        cut();
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    static void (*const probes[])(void) = {p01, p02, p03, p04, p05, p06, p07, p08, p09, p10, p11};
    test_start(&argc, &argv);
    int number = argc > 1 ? atoi(argv[1] + 1) : 0;
    CHECK(number >= 1 && number <= 11, "which probe?");
    probes[number - 1]();
    return test_finish(argv[1]);
}

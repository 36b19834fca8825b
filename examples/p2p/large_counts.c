//#Ranks: 2
//#Mpi: mpich
//#Shows: large-count sends and receives, buffered, persistent and matched, at the cut; counts beyond an int
//#Variant: fitting; cut=hold
//#Variant: posted; cut=hold
//#Variant: huge; cut=hold; modes=restart, migrate; timeout=300
#include "../stasis_test.h"

#include <sys/mman.h>

enum { N = 1000, KINDS = 8 };

/* More than an int can tell. */
static const MPI_Count HUGE_COUNT = (MPI_Count)INT32_MAX + 1000;

/* Memory that is only address space until it is written to. */
static char *reserve(size_t bytes)
{
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(start != MAP_FAILED, "no %zu bytes of address space", bytes);
    return start;
}

static void check_count(MPI_Status *status, MPI_Datatype type, MPI_Count expected)
{
    MPI_Count count, elements;
    MPI_OK(MPI_Get_count_c(status, type, &count));
    MPI_OK(MPI_Get_elements_c(status, type, &elements));
    CHECK_EQ(count, expected);
    CHECK_EQ(elements, expected);
}

/* Every kind of send and receive: rank 0 sends before the cut, rank 1 receives after it, and the
 * other way round what was posted before. */
static void fitting(void)
{
    int peer = 1 - test_rank, flag;
    static unsigned char out[KINDS][N], in[KINDS][N], back[N], attached[64 * 1024];
    MPI_Request sends[KINDS], receives[2], persistent;
    MPI_Status status;
    MPI_Message message;
    void *detached;
    MPI_Count size;
    MPI_OK(MPI_Buffer_attach_c(attached, sizeof attached));
    for (int kind = 0; kind < KINDS; kind++)
        test_fill(out[kind], N, 10 * kind + test_rank);
    MPI_OK(MPI_Irecv_c(in[0], N, MPI_BYTE, peer, 100, MPI_COMM_WORLD, &receives[0]));
    MPI_OK(MPI_Recv_init_c(in[1], N, MPI_BYTE, peer, 101, MPI_COMM_WORLD, &receives[1]));
    MPI_OK(MPI_Start(&receives[1]));
    MPI_OK(MPI_Isend_c(out[2], N, MPI_BYTE, peer, 102, MPI_COMM_WORLD, &sends[2]));
    MPI_OK(MPI_Ibsend_c(out[3], N, MPI_BYTE, peer, 103, MPI_COMM_WORLD, &sends[3]));
    MPI_OK(MPI_Issend_c(out[4], N, MPI_BYTE, peer, 104, MPI_COMM_WORLD, &sends[4]));
    MPI_OK(MPI_Send_init_c(out[5], N, MPI_BYTE, peer, 105, MPI_COMM_WORLD, &sends[5]));
    MPI_OK(MPI_Ssend_init_c(out[6], N, MPI_BYTE, peer, 106, MPI_COMM_WORLD, &sends[6]));
    MPI_OK(MPI_Bsend_init_c(out[7], N, MPI_BYTE, peer, 107, MPI_COMM_WORLD, &sends[7]));
    MPI_OK(MPI_Startall(3, sends + 5));
    MPI_OK(MPI_Bsend_c(out[0], N / 2, MPI_BYTE, peer, 108, MPI_COMM_WORLD));
    cut();
    MPI_OK(MPI_Rsend_init_c(out[0], N, MPI_BYTE, peer, 100, MPI_COMM_WORLD, &sends[0]));
    MPI_OK(MPI_Start(&sends[0]));
    MPI_OK(MPI_Irsend_c(out[1], N, MPI_BYTE, peer, 101, MPI_COMM_WORLD, &sends[1]));
    for (int i = 0; i < 2; i++) {
        MPI_OK(MPI_Wait(&receives[i], &status));
        check_count(&status, MPI_BYTE, N);
        test_verify(in[i], N, 10 * i + peer);
    }
    MPI_OK(MPI_Recv_c(in[2], N, MPI_BYTE, peer, 102, MPI_COMM_WORLD, &status));
    check_count(&status, MPI_BYTE, N);
    MPI_OK(MPI_Mprobe(peer, 103, MPI_COMM_WORLD, &message, &status));
    MPI_OK(MPI_Mrecv_c(in[3], N, MPI_BYTE, &message, &status));
    check_count(&status, MPI_BYTE, N);
    MPI_OK(MPI_Mprobe(peer, 104, MPI_COMM_WORLD, &message, &status));
    MPI_OK(MPI_Imrecv_c(in[4], N, MPI_BYTE, &message, &receives[0]));
    MPI_OK(MPI_Wait(&receives[0], &status));
    check_count(&status, MPI_BYTE, N);
    for (int kind = 5; kind < KINDS; kind++)
        MPI_OK(MPI_Recv_c(in[kind], N, MPI_BYTE, peer, 100 + kind, MPI_COMM_WORLD, &status));
    MPI_OK(MPI_Recv_c(back, N, MPI_BYTE, peer, 108, MPI_COMM_WORLD, &status));
    check_count(&status, MPI_BYTE, N / 2);
    test_verify(back, N / 2, peer);
    for (int kind = 2; kind < KINDS; kind++)
        test_verify(in[kind], N, 10 * kind + peer);
    MPI_OK(MPI_Waitall(KINDS, sends, MPI_STATUSES_IGNORE));
    for (int kind = 5; kind < KINDS; kind++)
        MPI_OK(MPI_Request_free(&sends[kind]));
    MPI_OK(MPI_Request_free(&sends[0]));
    MPI_OK(MPI_Request_free(&receives[1]));

    /* What blocks, in both directions. */
    MPI_OK(MPI_Sendrecv_c(out[1], N, MPI_BYTE, peer, 1, in[1], N, MPI_BYTE, peer, 1,
                          MPI_COMM_WORLD, &status));
    check_count(&status, MPI_BYTE, N);
    test_verify(in[1], N, 10 + peer);
    MPI_OK(MPI_Sendrecv_replace_c(out[1], N, MPI_BYTE, peer, 2, peer, 2, MPI_COMM_WORLD, &status));
    test_verify(out[1], N, 10 + peer);
    MPI_OK(MPI_Irecv_c(back, N, MPI_BYTE, peer, 3, MPI_COMM_WORLD, &persistent));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Rsend_c(out[2], N, MPI_BYTE, peer, 3, MPI_COMM_WORLD));
    MPI_OK(MPI_Wait(&persistent, &status));
    if (test_rank == 0) {
        MPI_OK(MPI_Ssend_c(out[3], N, MPI_BYTE, peer, 4, MPI_COMM_WORLD));
        MPI_OK(MPI_Send_c(out[3], N, MPI_BYTE, peer, 5, MPI_COMM_WORLD));
    } else {
        MPI_OK(MPI_Recv_c(in[3], N, MPI_BYTE, peer, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Recv_c(in[3], N, MPI_BYTE, peer, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(in[3], N, 30 + peer);
    }
    MPI_OK(MPI_Buffer_detach_c(&detached, &size));
    CHECK_EQ(size, sizeof attached);
    CHECK(detached == attached, "another buffer came back");
    MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
}

/* Receives that take more than an int can tell are posted at the cut, one of them persistent; what
 * comes is little. */
static void posted(void)
{
    int peer = 1 - test_rank;
    char *in[3], out[N];
    MPI_Request requests[3];
    MPI_Status status;
    MPI_Datatype pair;
    for (int i = 0; i < 3; i++)
        in[i] = reserve(2 * HUGE_COUNT);
    test_fill(out, N, test_rank);
    MPI_OK(MPI_Type_contiguous_c(2, MPI_BYTE, &pair));
    MPI_OK(MPI_Type_commit(&pair));
    MPI_OK(MPI_Irecv_c(in[0], HUGE_COUNT, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[0]));
    MPI_OK(MPI_Irecv_c(in[1], HUGE_COUNT, pair, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[1]));
    MPI_OK(MPI_Recv_init_c(in[2], HUGE_COUNT, MPI_BYTE, peer, 3, MPI_COMM_WORLD, &requests[2]));
    MPI_OK(MPI_Start(&requests[2]));
    MPI_OK(MPI_Type_free(&pair));
    cut();
    for (int i = 0; i < 3; i++)
        MPI_OK(MPI_Send_c(out, N, MPI_BYTE, peer, 1 + i, MPI_COMM_WORLD));
    for (int i = 0; i < 3; i++) {
        MPI_OK(MPI_Wait(&requests[i], &status));
        check_count(&status, MPI_BYTE, N);
        test_verify(in[i], N, peer);
    }
    MPI_OK(MPI_Start(&requests[2]));
    MPI_OK(MPI_Send_c(out, N / 2, MPI_BYTE, peer, 3, MPI_COMM_WORLD));
    MPI_OK(MPI_Wait(&requests[2], &status));
    check_count(&status, MPI_BYTE, N / 2);
    MPI_OK(MPI_Request_free(&requests[2]));
}

/* A message of more elements than an int can tell is under way at the cut. */
static void huge(void)
{
    char *data = reserve(HUGE_COUNT);
    MPI_Request request;
    MPI_Status status;
    int small;
    if (test_rank == 1) {
        test_fill(data + HUGE_COUNT - N, N, 7);
        data[0] = 1;
        MPI_OK(MPI_Isend_c(data, HUGE_COUNT, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &request));
        cut();
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        cut();
        MPI_OK(MPI_Recv_c(data, HUGE_COUNT, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &status));
        check_count(&status, MPI_CHAR, HUGE_COUNT);
        MPI_OK(MPI_Get_count(&status, MPI_CHAR, &small));
        CHECK_EQ(small, MPI_UNDEFINED);
        CHECK_EQ(data[0], 1);
        CHECK_EQ(data[HUGE_COUNT / 2], 0);
        test_verify(data + HUGE_COUNT - N, N, 7);
    }
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    if (test_is(argc, argv, "fitting"))
        fitting();
    else if (test_is(argc, argv, "posted"))
        posted();
    else
        huge();
    return test_finish("large_counts");
}

//#Ranks: 2
//#Cut: hold
//#Shows: the ends of what is allowed, under way at the cut: empty messages, the largest tag, messages to oneself in every mode, MPI_PROC_NULL in every call
#include "../stasis_test.h"

enum { N = 64 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int other = 1 - test_rank, flag, count, *limit, n = 0;
    MPI_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &flag));
    CHECK(flag && *limit >= 32767, "flag %d", flag);
    int highest = *limit;
    static char out[N], in[N], big[300000], big_in[300000];
    MPI_Datatype nothing;
    MPI_Request requests[16], again[2], null[4];
    MPI_Message message;
    MPI_Status status;
    test_fill(out, N, (uint32_t)test_rank);
    test_fill(big, sizeof big, (uint32_t)test_rank + 2);
    MPI_OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    MPI_OK(MPI_Type_commit(&nothing));

    /* Empty messages, of no entries and of empty entries, in order among others of the same tag. */
    MPI_OK(MPI_Isend(NULL, 0, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Isend(out, N, MPI_BYTE, other, 1, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Issend(NULL, 7, nothing, other, 1, MPI_COMM_WORLD, &requests[n++]));
    /* The largest tag, small and large. */
    MPI_OK(MPI_Isend(out, N, MPI_BYTE, other, highest, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Isend(big, sizeof big, MPI_BYTE, other, highest, MPI_COMM_WORLD, &requests[n++]));
    /* To oneself: synchronous, large, empty, persistent, and a receive that was posted first. */
    MPI_OK(MPI_Issend(out, N, MPI_BYTE, test_rank, 2, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Isend(big, sizeof big, MPI_BYTE, 0, 2, MPI_COMM_SELF, &requests[n++]));
    MPI_OK(MPI_Issend(NULL, 0, MPI_INT, 0, 3, MPI_COMM_SELF, &requests[n++]));
    MPI_OK(MPI_Irecv(big_in, sizeof big_in, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &requests[n++]));
    MPI_OK(MPI_Send_init(out, N, MPI_BYTE, test_rank, 4, MPI_COMM_WORLD, &again[0]));
    MPI_OK(MPI_Recv_init(in, N, MPI_BYTE, test_rank, 4, MPI_COMM_WORLD, &again[1]));
    MPI_OK(MPI_Start(&again[0]));
    /* Nobody. */
    MPI_OK(MPI_Send_init(out, N, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &null[0]));
    MPI_OK(MPI_Recv_init(in, N, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &null[1]));
    MPI_OK(MPI_Startall(2, null));
    MPI_OK(MPI_Isend(out, N, MPI_BYTE, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &null[2]));
    MPI_OK(MPI_Irecv(in, N, MPI_BYTE, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &null[3]));

    cut();

    MPI_OK(MPI_Recv(NULL, 0, MPI_INT, other, 1, MPI_COMM_WORLD, &status));
    MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 0);
    MPI_OK(MPI_Recv(in, N, MPI_BYTE, other, 1, MPI_COMM_WORLD, &status));
    test_verify(in, N, (uint32_t)other);
    MPI_OK(MPI_Probe(other, 1, MPI_COMM_WORLD, &status));
    MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, 0);
    MPI_OK(MPI_Recv(in, 1, nothing, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status));
    CHECK_EQ(status.MPI_SOURCE, other);

    MPI_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &flag));
    CHECK(flag && *limit == highest, "the largest tag is %d now, was %d", *limit, highest);
    MPI_OK(MPI_Recv(in, N, MPI_BYTE, other, highest, MPI_COMM_WORLD, &status));
    CHECK_EQ(status.MPI_TAG, highest);
    test_verify(in, N, (uint32_t)other);
    MPI_OK(MPI_Mprobe(MPI_ANY_SOURCE, highest, MPI_COMM_WORLD, &message, &status));
    CHECK_EQ(status.MPI_TAG, highest);
    static char large[sizeof big];
    MPI_OK(MPI_Mrecv(large, sizeof large, MPI_BYTE, &message, &status));
    test_verify(large, sizeof large, (uint32_t)other + 2);

    MPI_OK(MPI_Recv(in, N, MPI_BYTE, test_rank, 2, MPI_COMM_WORLD, &status));
    test_verify(in, N, (uint32_t)test_rank);
    MPI_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_SELF, &status));
    MPI_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    test_verify(big_in, sizeof big_in, (uint32_t)test_rank + 2);
    for (int round = 0; round < 2; round++) {
        memset(in, 0, N);
        MPI_OK(MPI_Start(&again[1]));
        MPI_OK(MPI_Waitall(2, again, MPI_STATUSES_IGNORE));
        test_verify(in, N, (uint32_t)test_rank);
        if (round == 0)
            MPI_OK(MPI_Start(&again[0]));
    }
    MPI_OK(MPI_Waitall(4, null, MPI_STATUSES_IGNORE));
    MPI_OK(MPI_Sendrecv(out, N, MPI_BYTE, MPI_PROC_NULL, 0, in, N, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_OK(MPI_Sendrecv_replace(in, N, MPI_BYTE, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_OK(MPI_Ssend(out, N, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Rsend(out, N, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Bsend(out, N, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &status));
    CHECK(flag && status.MPI_SOURCE == MPI_PROC_NULL, "flag %d", flag);
    MPI_OK(MPI_Improbe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &message, &status));
    CHECK(flag && message == MPI_MESSAGE_NO_PROC, "flag %d", flag);
    MPI_OK(MPI_Mrecv(in, N, MPI_BYTE, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL, "from %d", status.MPI_SOURCE);
    test_verify(in, N, (uint32_t)test_rank);
    MPI_OK(MPI_Request_free(&again[0]));
    MPI_OK(MPI_Request_free(&again[1]));
    MPI_OK(MPI_Request_free(&null[0]));
    MPI_OK(MPI_Request_free(&null[1]));
    MPI_OK(MPI_Type_free(&nothing));
    return test_finish("extremes");
}

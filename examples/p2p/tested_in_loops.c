//#Ranks: 2
//#Cut: loop
//#Shows: loops of tests that find nothing for long: other messages move on by them alone, none asks in vain for ever, and none misses what a call between two tests has completed
//#Variant: test; matrix=full
//#Variant: testany; matrix=full
//#Variant: testsome
//#Variant: testall
#include "../stasis_test.h"

enum { SMALL = 40, BIG = 300000, STEPS = 30, PAIR = 2 };
static char in[PAIR][BIG], out[PAIR][BIG];
static const char *how;
static int other;

/* Tests in a loop until all of a few requests are complete. */
static void test_all(int n, MPI_Request *requests)
{
    int flag = 0, index, some = 0, indices[PAIR];
    if (!strcmp(how, "test")) {
        for (int i = 0; i < n; i++)
            for (flag = 0; !flag;)
                MPI_OK(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE));
    } else if (!strcmp(how, "testany")) {
        for (int left = n; left; left -= flag)
            MPI_OK(MPI_Testany(n, requests, &index, &flag, MPI_STATUS_IGNORE));
    } else if (!strcmp(how, "testsome")) {
        for (int left = n; left; left -= some)
            MPI_OK(MPI_Testsome(n, requests, &some, indices, MPI_STATUSES_IGNORE));
    } else {
        CHECK(!strcmp(how, "testall"), "no variant %s", how);
        while (!flag)
            MPI_OK(MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE));
    }
}

/* One test of one request. */
static int is_complete(MPI_Request *request)
{
    int flag = 0, index, some = 0;
    if (!strcmp(how, "test"))
        MPI_OK(MPI_Test(request, &flag, MPI_STATUS_IGNORE));
    else if (!strcmp(how, "testany"))
        MPI_OK(MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE));
    else if (!strcmp(how, "testsome"))
        MPI_OK(MPI_Testsome(1, request, &some, &index, MPI_STATUSES_IGNORE));
    else
        MPI_OK(MPI_Testall(1, request, &flag, MPI_STATUSES_IGNORE));
    return flag || some;
}

/* A process computes between two calls, so that its peer tests in vain for long. */
static void compute(int turns)
{
    volatile unsigned value = 1;
    for (int i = 0; i < turns * 1000; i++)
        value = value * 1664525u + 1013904223u;
}

/* After many tests in vain, the first after a call that completes the request finds it complete. */
static void send_to_self(uint32_t seed)
{
    MPI_Request request;
    test_fill(out[0], SMALL, seed);
    MPI_OK(MPI_Irecv(in[0], SMALL, MPI_BYTE, 0, 1, MPI_COMM_SELF, &request));
    for (int i = 0; i < 300; i++)
        CHECK(!is_complete(&request), "complete before it was sent");
    MPI_OK(MPI_Send(out[0], SMALL, MPI_BYTE, 0, 1, MPI_COMM_SELF));
    CHECK(is_complete(&request), "a test misses what a send to itself has completed");
    test_verify(in[0], SMALL, seed);
}

/* Both sides go on by tests alone. */
static void exchange(int bytes, uint32_t seed)
{
    MPI_Request requests[PAIR];
    test_fill(out[0], (size_t)bytes, seed + (uint32_t)test_rank);
    MPI_OK(MPI_Irecv(in[0], bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[0]));
    MPI_OK(MPI_Isend(out[0], bytes, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[1]));
    test_all(2, requests);
    test_verify(in[0], (size_t)bytes, seed + (uint32_t)other);
}

/* The peer sends what is tested for only after a large message that nobody tests for. */
static void other_moves_on(int sender, uint32_t seed)
{
    MPI_Request requests[PAIR];
    if (test_rank == sender) {
        test_fill(out[0], BIG, seed);
        test_fill(out[1], SMALL, seed + 1);
        MPI_OK(MPI_Ssend(out[0], BIG, MPI_BYTE, other, 3, MPI_COMM_WORLD));
        MPI_OK(MPI_Send(out[1], SMALL, MPI_BYTE, other, 4, MPI_COMM_WORLD));
        return;
    }
    MPI_OK(MPI_Irecv(in[0], BIG, MPI_BYTE, other, 3, MPI_COMM_WORLD, &requests[0]));
    MPI_OK(MPI_Irecv(in[1], SMALL, MPI_BYTE, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &requests[1]));
    test_all(1, &requests[1]);
    test_all(1, &requests[0]);
    test_verify(in[0], BIG, seed);
    test_verify(in[1], SMALL, seed + 1);
}

/* A persistent request is tested in vain again after each start. */
static void start_again(MPI_Request *persistent, uint32_t seed)
{
    for (int i = 0; i < 3; i++) {
        test_fill(out[0], SMALL, seed + (uint32_t)(i + test_rank));
        MPI_OK(MPI_Startall(PAIR, persistent));
        test_all(PAIR, persistent);
        test_verify(in[0], SMALL, seed + (uint32_t)(i + other));
    }
}

/* An operation of several steps. */
static void reduce(int step)
{
    MPI_Request request;
    int mine = step + test_rank, sum = 0;
    MPI_OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    test_all(1, &request);
    CHECK_EQ(sum, 2 * step + 1);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK(argc > 1, "which call?");
    how = argv[1];
    other = 1 - test_rank;
    MPI_Request persistent[PAIR];
    MPI_OK(MPI_Recv_init(in[0], SMALL, MPI_BYTE, other, 5, MPI_COMM_WORLD, &persistent[0]));
    MPI_OK(MPI_Send_init(out[0], SMALL, MPI_BYTE, other, 5, MPI_COMM_WORLD, &persistent[1]));
    for (int step = 0; cut_more(step, STEPS, MPI_COMM_WORLD); step++) {
        uint32_t seed = (uint32_t)(100 * step);
        send_to_self(seed);
        compute(test_rank == step % 2 ? 1 << step % 6 : 0);
        exchange(SMALL, seed + 10);
        exchange(BIG, seed + 20);
        other_moves_on(step % 2, seed + 30);
        compute(test_rank == step % 2 ? 0 : 10);
        start_again(persistent, seed + 40);
        reduce(step);
    }
    for (int i = 0; i < PAIR; i++)
        MPI_OK(MPI_Request_free(&persistent[i]));
    return test_finish_loop(how);
}

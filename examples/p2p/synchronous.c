//#Ranks: 3
//#Shows: a synchronous send that a checkpoint finds on its way is complete when its receiver has asked for the message, and not before
//#Cut: hold
//#Variant: token; matrix=full; modes=plain, continue, restart, migrate, cycle, ten
//#Variant: blocking
//#Variant: persistent
//#Variant: order; modes=plain, continue, restart, migrate, cycle
//#Variant: matched
//#Variant: posted
//#Variant: consensus; modes=plain, continue, restart, migrate, cycle
#include "../stasis_test.h"

enum { WORK = 1, TOKEN = 2, LONG_WORK = 3, LONG = 300000 };

static unsigned char shorts[2][16], longs[LONG];

/* The sender has not passed the token on. If it is going to, it gets the time for that. */
static void expect_no_token(void)
{
    struct timespec pause = {0, 1000000};
    for (int turn = 0; turn < 200; turn++) {
        int there;
        MPI_OK(MPI_Iprobe(1, TOKEN, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE));
        CHECK_EQ(there, 0);
        nanosleep(&pause, NULL);
    }
}

static void pass_token(void) { MPI_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, TOKEN, MPI_COMM_WORLD)); }

static void await_token(void)
{
    MPI_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, TOKEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void take(unsigned char *message, int length, int source, int tag, uint32_t seed)
{
    MPI_OK(MPI_Recv(message, length, MPI_BYTE, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    test_verify(message, (size_t)length, seed);
}

/* Rank 1 passes the token on when its work has been received, and rank 0 takes the work late. A long message of rank 1,
 * which its library does not take, is on its way beside. */
static void token(int blocking, int matched)
{
    MPI_Request sends[2];
    if (test_rank == 1) {
        test_fill(longs, LONG, 5);
        test_fill(shorts[0], sizeof shorts[0], 6);
        MPI_OK(MPI_Isend(longs, LONG, MPI_BYTE, 0, LONG_WORK, MPI_COMM_WORLD, &sends[0]));
        if (blocking) {
            cut_announce();
            MPI_OK(MPI_Ssend(shorts[0], sizeof shorts[0], MPI_BYTE, 0, WORK, MPI_COMM_WORLD));
        } else {
            MPI_OK(MPI_Issend(shorts[0], sizeof shorts[0], MPI_BYTE, 0, WORK, MPI_COMM_WORLD, &sends[1]));
            cut_announce();
            MPI_OK(MPI_Wait(&sends[1], MPI_STATUS_IGNORE));
        }
        pass_token();
        MPI_OK(MPI_Wait(&sends[0], MPI_STATUS_IGNORE));
    } else if (test_rank == 0) {
        cut();
        expect_no_token();
        if (matched) {
            MPI_Message message;
            MPI_Status status;
            MPI_Request receive;
            MPI_OK(MPI_Mprobe(MPI_ANY_SOURCE, WORK, MPI_COMM_WORLD, &message, &status));
            CHECK_EQ(status.MPI_SOURCE, 1);
            MPI_OK(MPI_Imrecv(shorts[0], sizeof shorts[0], MPI_BYTE, &message, &receive));
            MPI_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
            test_verify(shorts[0], sizeof shorts[0], 6);
        } else
            take(shorts[0], sizeof shorts[0], MPI_ANY_SOURCE, WORK, 6);
        await_token();
        take(longs, LONG, 1, LONG_WORK, 5);
    } else
        cut();
}

/* Rank 0 takes the first of three messages over one route before the cut. The token belongs to the second. */
static void take_three(void)
{
    if (test_rank == 0)
        take(shorts[0], sizeof shorts[0], 1, WORK, 0);
    cut();
    if (test_rank == 0) {
        expect_no_token();
        take(shorts[0], sizeof shorts[0], 1, WORK, 1);
        await_token();
        take(shorts[0], sizeof shorts[0], 1, WORK, 2);
    }
}

static void persistent(void)
{
    MPI_Request send;
    if (test_rank == 1) {
        MPI_OK(MPI_Ssend_init(shorts[0], sizeof shorts[0], MPI_BYTE, 0, WORK, MPI_COMM_WORLD, &send));
        for (uint32_t turn = 0; turn < 3; turn++) {
            test_fill(shorts[0], sizeof shorts[0], turn);
            MPI_OK(MPI_Start(&send));
            if (turn == 1)
                cut_announce();
            MPI_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            if (turn == 1)
                pass_token();
        }
        MPI_OK(MPI_Request_free(&send));
    } else
        take_three();
}

/* Messages over one route: the first has been received, the second is synchronous, and the third need not be received
 * for the second. */
static void order(void)
{
    MPI_Request sends[3];
    if (test_rank == 1) {
        unsigned char messages[3][16];
        for (uint32_t i = 0; i < 3; i++)
            test_fill(messages[i], sizeof messages[i], i);
        MPI_OK(MPI_Issend(messages[0], 16, MPI_BYTE, 0, WORK, MPI_COMM_WORLD, &sends[0]));
        MPI_OK(MPI_Issend(messages[1], 16, MPI_BYTE, 0, WORK, MPI_COMM_WORLD, &sends[1]));
        MPI_OK(MPI_Isend(messages[2], 16, MPI_BYTE, 0, WORK, MPI_COMM_WORLD, &sends[2]));
        cut_announce();
        MPI_OK(MPI_Wait(&sends[0], MPI_STATUS_IGNORE));
        MPI_OK(MPI_Wait(&sends[1], MPI_STATUS_IGNORE));
        pass_token();
        MPI_OK(MPI_Wait(&sends[2], MPI_STATUS_IGNORE));
    } else
        take_three();
}

/* The receive was there before the checkpoint: the send needs nothing more of the receiver. */
static void posted(void)
{
    MPI_Request request;
    if (test_rank == 0)
        MPI_OK(MPI_Irecv(shorts[0], sizeof shorts[0], MPI_BYTE, 1, WORK, MPI_COMM_WORLD, &request));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 1) {
        test_fill(shorts[0], sizeof shorts[0], 7);
        MPI_OK(MPI_Issend(shorts[0], sizeof shorts[0], MPI_BYTE, 0, WORK, MPI_COMM_WORLD, &request));
        cut();
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        pass_token();
    } else if (test_rank == 0) {
        cut();
        await_token();
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        test_verify(shorts[0], sizeof shorts[0], 7);
    } else
        cut();
}

/* Nonblocking consensus (Hoefler et al., PPoPP 2010): a rank enters the barrier when its sends are complete, and has all
 * messages when it is through. Rank 0 is cut after a look for messages, and looks at the barrier for some time before it
 * looks for messages again. */
static void consensus(void)
{
    struct timespec pause = {0, 1000000};
    int received = 0, done = 0, there;
    MPI_Request barrier, send = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 0) {
        MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, WORK, MPI_COMM_WORLD, &there, &status));
        CHECK_EQ(there, 0);
        MPI_OK(MPI_Send(NULL, 0, MPI_BYTE, 1, TOKEN, MPI_COMM_WORLD));
        cut();
    } else if (test_rank == 1) {
        MPI_OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, TOKEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_fill(shorts[0], sizeof shorts[0], 9);
        MPI_OK(MPI_Issend(shorts[0], sizeof shorts[0], MPI_BYTE, 0, WORK, MPI_COMM_WORLD, &send));
        cut_announce();
        MPI_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    } else
        cut();
    MPI_OK(MPI_Ibarrier(MPI_COMM_WORLD, &barrier));
    for (int turn = 0; test_rank == 0 && turn < 200; turn++) {
        MPI_OK(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE));
        CHECK_EQ(done, 0);
        nanosleep(&pause, NULL);
    }
    while (!done) {
        MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, WORK, MPI_COMM_WORLD, &there, &status));
        if (there) {
            take(shorts[1], sizeof shorts[1], status.MPI_SOURCE, WORK, 9);
            received++;
        }
        MPI_OK(MPI_Test(&barrier, &done, MPI_STATUS_IGNORE));
    }
    CHECK_EQ(received, test_rank == 0);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    if (test_is(argc, argv, "persistent"))
        persistent();
    else if (test_is(argc, argv, "order"))
        order();
    else if (test_is(argc, argv, "posted"))
        posted();
    else if (test_is(argc, argv, "consensus"))
        consensus();
    else
        token(test_is(argc, argv, "blocking"), test_is(argc, argv, "matched"));
    return test_finish("synchronous");
}

//#Ranks: 4
//#Cut: hold
//#Environment: STASIS_PERTURB=3
//#Shows: receives and probes from any source whose messages are held back: nothing hangs, and each source's messages stay in order
#include "../stasis_test.h"

enum { EACH = 8, LARGE = 1 << 18, ANY = MPI_ANY_SOURCE };

static int next_from[4];

/* The messages of a source come in order. */
static void in_order(const int value[2], int source)
{
    CHECK_EQ(value[0], source);
    CHECK_EQ(value[1], next_from[source]);
    next_from[source]++;
}

static void begin_round(void)
{
    memset(next_from, 0, sizeof next_from);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Ranks 1 to 3 send messages to rank 0. */
static void send_all(int each, int tag)
{
    for (int i = 0; test_rank != 0 && i < each; i++) {
        int value[2] = {test_rank, i};
        MPI_OK(MPI_Send(value, 2, MPI_INT, 0, tag, MPI_COMM_WORLD));
    }
}

/* Receives that overlap, some of them from one source, are posted before the cut; their messages are under way. */
static void across_the_cut(void)
{
    enum { FROM_1 = 4, FROM_2 = 2, ALL = FROM_1 + FROM_2 };
    static const int sources[ALL] = {ANY, 1, ANY, 1, ANY, ANY}, tags[ALL] = {1, 1, 1, MPI_ANY_TAG, 1, MPI_ANY_TAG};
    int values[ALL][2], mine = test_rank == 1 ? FROM_1 : test_rank == 2 ? FROM_2 : 0;
    MPI_Request requests[ALL];
    MPI_Status statuses[ALL];
    begin_round();
    for (int i = 0; test_rank == 0 && i < ALL; i++)
        MPI_OK(MPI_Irecv(values[i], 2, MPI_INT, sources[i], tags[i], MPI_COMM_WORLD, &requests[i]));
    for (int i = 0; i < mine; i++) {
        values[i][0] = test_rank;
        values[i][1] = i;
        MPI_OK(MPI_Isend(values[i], 2, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[i]));
    }
    cut();
    MPI_OK(MPI_Waitall(test_rank == 0 ? ALL : mine, requests, statuses));
    for (int i = 0; test_rank == 0 && i < ALL; i++)
        in_order(values[i], statuses[i].MPI_SOURCE);
}

/* A sender that waits for its receive is received from while the receiver is in some other call. */
static void in_other_calls(void)
{
    for (int call = 0; call < 4; call++) {
        int value[2], other = 0, own[2] = {test_rank, 0};
        MPI_Request receive;
        MPI_Win window;
        MPI_OK(MPI_Win_create(own, sizeof own, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
        MPI_OK(MPI_Win_fence(0, window));
        begin_round();
        if (test_rank == 0)
            MPI_OK(MPI_Irecv(value, 2, MPI_INT, ANY, 2, MPI_COMM_WORLD, &receive));
        if (test_rank == 1)
            MPI_OK(MPI_Ssend(own, 2, MPI_INT, 0, 2, MPI_COMM_WORLD));
        switch (call) {
        case 0:
            MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
            break;
        case 1:
            MPI_OK(MPI_Win_fence(0, window));
            break;
        case 2:
            if (test_rank == 0)
                MPI_OK(MPI_Ssend(&other, 1, MPI_INT, 1, 3, MPI_COMM_WORLD));
            if (test_rank == 1)
                MPI_OK(MPI_Recv(&other, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            break;
        default:
            if (test_rank == 0)
                MPI_OK(MPI_Recv(&other, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (test_rank == 1)
                MPI_OK(MPI_Send(&other, 1, MPI_INT, 0, 3, MPI_COMM_WORLD));
        }
        if (test_rank == 0) {
            MPI_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
            in_order(value, 1);
        }
        MPI_OK(MPI_Win_free(&window));
    }
}

/* Large messages around a ring, of which each is received before it is sent on. */
static void exchanged(void)
{
    static int out[LARGE], in[LARGE];
    int right = (test_rank + 1) % 4, left = (test_rank + 3) % 4;
    for (int round = 0; round < 3; round++) {
        MPI_Request request;
        MPI_Status status;
        for (int i = 0; i < LARGE; i++)
            out[i] = test_rank + i + round;
        begin_round();
        if (round % 2) {
            MPI_OK(MPI_Irecv(in, LARGE, MPI_INT, ANY, 4, MPI_COMM_WORLD, &request));
            MPI_OK(MPI_Send(out, LARGE, MPI_INT, right, 4, MPI_COMM_WORLD));
            MPI_OK(MPI_Wait(&request, &status));
        } else {
            MPI_OK(MPI_Sendrecv(out, LARGE, MPI_INT, right, 4, in, LARGE, MPI_INT, ANY, 4, MPI_COMM_WORLD, &status));
        }
        CHECK_EQ(status.MPI_SOURCE, left);
        for (int i = 0; i < LARGE; i++)
            CHECK_EQ(in[i], left + i + round);
    }
}

static void probed(void)
{
    for (int how = 0; how < 4; how++) {
        begin_round();
        send_all(EACH, 5);
        for (int n = 0; test_rank == 0 && n < 3 * EACH; n++) {
            int value[2], found = 0;
            MPI_Status status;
            MPI_Message message = MPI_MESSAGE_NULL;
            if (how == 0)
                MPI_OK(MPI_Probe(ANY, 5, MPI_COMM_WORLD, &status));
            else if (how == 1)
                MPI_OK(MPI_Mprobe(ANY, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status));
            while (how == 2 && !found)
                MPI_OK(MPI_Iprobe(ANY, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &status));
            while (how == 3 && !found)
                MPI_OK(MPI_Improbe(ANY, 5, MPI_COMM_WORLD, &found, &message, &status));
            if (message != MPI_MESSAGE_NULL)
                MPI_OK(MPI_Mrecv(value, 2, MPI_INT, &message, &status));
            else
                MPI_OK(MPI_Recv(value, 2, MPI_INT, status.MPI_SOURCE, 5, MPI_COMM_WORLD, &status));
            in_order(value, status.MPI_SOURCE);
        }
    }
}

static void persistent(void)
{
    int value[2];
    MPI_Request request;
    begin_round();
    send_all(EACH, 6);
    if (test_rank != 0)
        return;
    MPI_OK(MPI_Recv_init(value, 2, MPI_INT, ANY, 6, MPI_COMM_WORLD, &request));
    for (int n = 0; n < 3 * EACH; n++) {
        MPI_Status status;
        int done = 0;
        MPI_OK(MPI_Start(&request));
        while (!done)
            MPI_OK(MPI_Test(&request, &done, &status));
        in_order(value, status.MPI_SOURCE);
    }
    MPI_OK(MPI_Request_free(&request));
}

/* Receives that end before their messages are taken. */
static void given_up(void)
{
    int value[2] = {-1, -1}, cancelled = 0;
    MPI_Status status;
    MPI_Request request;
    begin_round();
    if (test_rank == 0) {
        MPI_OK(MPI_Irecv(value, 2, MPI_INT, ANY, 7, MPI_COMM_WORLD, &request));
        MPI_OK(MPI_Cancel(&request));
        MPI_OK(MPI_Wait(&request, &status));
        MPI_OK(MPI_Test_cancelled(&status, &cancelled));
        CHECK_EQ(cancelled, 1);
        MPI_OK(MPI_Irecv(value, 2, MPI_INT, ANY, 8, MPI_COMM_WORLD, &request));
        MPI_OK(MPI_Request_free(&request));
    } else if (test_rank == 3) {
        MPI_OK(MPI_Ssend(value, 2, MPI_INT, 0, 8, MPI_COMM_WORLD));
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Waits and tests for some of several. */
static void some(void)
{
    for (int how = 0; how < 3; how++) {
        int values[3 * EACH][2], indices[3 * EACH], left = 3 * EACH;
        MPI_Request requests[3 * EACH];
        MPI_Status statuses[3 * EACH];
        begin_round();
        send_all(EACH, 9);
        for (int i = 0; test_rank == 0 && i < 3 * EACH; i++)
            MPI_OK(MPI_Irecv(values[i], 2, MPI_INT, ANY, 9, MPI_COMM_WORLD, &requests[i]));
        while (test_rank == 0 && left > 0) {
            int number = 1;
            if (how == 0)
                MPI_OK(MPI_Waitany(3 * EACH, requests, indices, statuses));
            else if (how == 1)
                MPI_OK(MPI_Waitsome(3 * EACH, requests, &number, indices, statuses));
            else
                MPI_OK(MPI_Testsome(3 * EACH, requests, &number, indices, statuses));
            for (int i = 0; i < number; i++)
                CHECK_EQ(values[indices[i]][0], statuses[i].MPI_SOURCE);
            left -= number;
        }
        for (int i = 0; test_rank == 0 && i < 3 * EACH; i++)
            in_order(values[i], values[i][0]);
    }
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    across_the_cut();
    in_other_calls();
    exchanged();
    probed();
    persistent();
    given_up();
    some();
    return test_finish("held_back");
}

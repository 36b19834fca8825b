//#Ranks: 2
//#Mpi: mpich
//#Modes: plain
//#Compare: none
//#Shows: polls for partitions of a message and for the end of an epoch of a window: its output differs from run to run
#include "../stasis_test.h"

enum { ROUNDS = 12, PARTS = 4, ONE = 1 };

/* How often a loop that polls has found nothing. */
static int misses;

static void jitter(void)
{
    unsigned random = 0;
    CHECK_EQ(getentropy(&random, sizeof random), 0);
    struct timespec pause = {0, 1000L * (random % 300)};
    nanosleep(&pause, NULL);
}

static int data[PARTS], memory = -1;

static void receive(MPI_Request *message, MPI_Win window, MPI_Group sender, int round)
{
    MPI_OK(MPI_Start(message));
    for (int part = 0; part < PARTS; part++) {
        for (int flag = 0; !flag; misses += !flag)
            MPI_OK(MPI_Parrived(*message, part, &flag));
        CHECK_EQ(data[part], 10 * round + part);
    }
    MPI_OK(MPI_Wait(message, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Win_post(sender, 0, window));
    if (round == ROUNDS / 2)
        cut();
    for (int flag = 0; !flag; misses += !flag)
        MPI_OK(MPI_Win_test(window, &flag));
    CHECK_EQ(memory, round);
    test_add(&misses, sizeof misses);
}

static void send(MPI_Request *message, MPI_Win window, MPI_Group receiver, int round)
{
    for (int part = 0; part < PARTS; part++)
        data[part] = 10 * round + part;
    MPI_OK(MPI_Start(message));
    for (int part = PARTS - 1; part >= 0; part--) {
        jitter();
        MPI_OK(MPI_Pready(part, *message));
    }
    MPI_OK(MPI_Wait(message, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Win_start(receiver, 0, window));
    jitter();
    if (round == ROUNDS / 2)
        cut();
    MPI_OK(MPI_Put(&round, 1, MPI_INT, 0, 0, 1, MPI_INT, window));
    MPI_OK(MPI_Win_complete(window));
}

int main(int argc, char **argv)
{
    int other;
    MPI_Request message;
    MPI_Win window;
    MPI_Group world, peer;
    test_start(&argc, &argv);
    other = 1 - test_rank;
    MPI_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MPI_OK(MPI_Group_incl(world, ONE, &other, &peer));
    MPI_OK(MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    if (test_rank == 0)
        MPI_OK(MPI_Precv_init(data, PARTS, ONE, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &message));
    else
        MPI_OK(MPI_Psend_init(data, PARTS, ONE, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &message));
    for (int round = 0; round < ROUNDS; round++) {
        if (test_rank == 0)
            receive(&message, window, peer, round);
        else
            send(&message, window, peer, round);
    }
    MPI_OK(MPI_Request_free(&message));
    MPI_OK(MPI_Win_free(&window));
    MPI_OK(MPI_Group_free(&peer));
    MPI_OK(MPI_Group_free(&world));
    return test_finish("polling");
}

//#Ranks: 3
//#Modes: plain
//#Compare: none
//#Shows: all calls whose outcome depends on the order of messages: its output differs from run to run
#include "../stasis_test.h"

enum { ROUNDS = 12, SENDERS = 2, EACH = 9 };

static unsigned random_below(unsigned limit)
{
    unsigned random = 0;
    CHECK_EQ(getentropy(&random, sizeof random), 0);
    return random % limit;
}

static void jitter(void)
{
    struct timespec pause = {0, 1000L * random_below(300)};
    nanosleep(&pause, NULL);
}

/* What was received, from whom. */
static void got(int value, const MPI_Status *status)
{
    int all[3] = {value, status->MPI_SOURCE, status->MPI_TAG};
    CHECK_EQ(value / 1000, status->MPI_SOURCE);
    test_add(all, sizeof all);
}

static void any(int value[], MPI_Request requests[], int n)
{
    MPI_Status status;
    for (int done = 0; done < n; done++) {
        int index = -1, flag = 0;
        if (done % 2) {
            MPI_OK(MPI_Waitany(n, requests, &index, &status));
        } else {
            while (!flag)
                MPI_OK(MPI_Testany(n, requests, &index, &flag, &status));
        }
        test_add(&index, sizeof index);
        got(value[index], &status);
    }
}

static void some(int value[], MPI_Request requests[], int n)
{
    MPI_Status statuses[EACH];
    int indices[EACH], count = 0, wait = 1;
    for (int done = 0; done < n; done += count) {
        if (wait)
            MPI_OK(MPI_Waitsome(n, requests, &count, indices, statuses));
        else
            MPI_OK(MPI_Testsome(n, requests, &count, indices, statuses));
        test_add(&count, sizeof count);
        for (int i = 0; i < count; i++)
            got(value[indices[i]], &statuses[i]);
        wait = !wait;
    }
}

static void receive(int round)
{
    int value[SENDERS * EACH] = {0}, flag = 0, misses = 0;
    MPI_Request requests[SENDERS * EACH], persistent;
    MPI_Status status;
    MPI_Message message;
    /* Six for MPI_Waitany and its like, four for MPI_Waitsome, two for a persistent receive, six for probes. */
    for (int i = 0; i < 10; i++)
        MPI_OK(MPI_Irecv(&value[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]));
    any(value, requests, 6);
    some(value + 6, requests + 6, 4);
    MPI_OK(MPI_Recv_init(&value[10], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &persistent));
    for (int i = 0; i < 2; i++) {
        MPI_OK(MPI_Start(&persistent));
        for (flag = 0; !flag; misses += !flag)
            MPI_OK(MPI_Test(&persistent, &flag, &status));
        got(value[10], &status);
    }
    MPI_OK(MPI_Request_free(&persistent));
    if (round == ROUNDS / 2)
        cut();
    MPI_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    MPI_OK(MPI_Recv(&value[12], 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status));
    got(value[12], &status);
    for (flag = 0; !flag; misses += !flag)
        MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
    MPI_OK(MPI_Recv(&value[13], 1, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status));
    got(value[13], &status);
    MPI_OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status));
    MPI_OK(MPI_Mrecv(&value[14], 1, MPI_INT, &message, &status));
    got(value[14], &status);
    for (flag = 0; !flag; misses += !flag)
        MPI_OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status));
    MPI_OK(MPI_Mrecv(&value[15], 1, MPI_INT, &message, &status));
    got(value[15], &status);
    for (int i = 16; i < 18; i++)
        MPI_OK(MPI_Irecv(&value[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]));
    for (flag = 0; !flag; misses += !flag)
        MPI_OK(MPI_Request_get_status(requests[16], &flag, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Wait(&requests[16], &status));
    got(value[16], &status);
    for (flag = 0; !flag; misses += !flag)
        MPI_OK(MPI_Testall(1, &requests[17], &flag, &status));
    got(value[17], &status);
    /* Nobody sends with this tag. The message that is under way must not be taken by the receive that is cancelled. */
    MPI_OK(MPI_Irecv(&value[0], 1, MPI_INT, MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &requests[0]));
    MPI_OK(MPI_Cancel(&requests[0]));
    MPI_OK(MPI_Wait(&requests[0], &status));
    MPI_OK(MPI_Test_cancelled(&status, &flag));
    CHECK_EQ(flag, 1);
    test_add(&misses, sizeof misses);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    for (int round = 0; round < ROUNDS; round++) {
        if (test_rank == 0)
            receive(round);
        for (int i = 0; test_rank != 0 && i < EACH; i++) {
            if (round == ROUNDS / 2 && i == EACH - 3 + test_rank)
                cut();
            int value = 1000 * test_rank + i;
            jitter();
            MPI_OK(MPI_Send(&value, 1, MPI_INT, 0, i % 3, MPI_COMM_WORLD));
        }
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return test_finish("choices");
}

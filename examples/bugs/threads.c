//#Ranks: 3
//#Flags: -pthread
//#Modes: plain
//#Compare: none
//#Shows: threads of a rank that compete for messages and send with one tag: its output differs from run to run
#include "../stasis_test.h"

#include <pthread.h>

/* Each thread receives that many messages, one by each kind of call in turn. */
enum { THREADS = 4, KINDS = 7, TURNS = 6, EACH = KINDS * TURNS, ALL = THREADS * EACH };
/* Tags: messages that anybody takes, of both senders; those of rank 1 alone; answers. */
enum { ANY = 1, OF_ONE = 2, ANSWER = 3 };

struct competitor {
    pthread_t thread;
    int number, values[EACH], misses;
};

static struct competitor competitors[THREADS];

static void jitter(void)
{
    unsigned random = 0;
    CHECK_EQ(getentropy(&random, sizeof random), 0);
    struct timespec pause = {0, 1000L * (random % 200)};
    nanosleep(&pause, NULL);
}

/* Kinds 0 to 2 take messages of anybody, the others those of rank 1. */
static void receive(struct competitor *self, int kind, int *value)
{
    int flag = 0, index;
    MPI_Request request;
    MPI_Message message;
    switch (kind) {
    case 0:
        MPI_OK(MPI_Recv(value, 1, MPI_INT, MPI_ANY_SOURCE, ANY, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        break;
    case 1:
        MPI_OK(MPI_Irecv(value, 1, MPI_INT, MPI_ANY_SOURCE, ANY, MPI_COMM_WORLD, &request));
        for (flag = 0; !flag; self->misses += !flag)
            MPI_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        break;
    case 2:
        for (flag = 0; !flag; self->misses += !flag)
            MPI_OK(MPI_Improbe(MPI_ANY_SOURCE, ANY, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Mrecv(value, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
        break;
    case 3:
        MPI_OK(MPI_Recv(value, 1, MPI_INT, 1, OF_ONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        break;
    case 4:
        MPI_OK(MPI_Mprobe(1, OF_ONE, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Mrecv(value, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
        break;
    case 5:
        MPI_OK(MPI_Recv_init(value, 1, MPI_INT, 1, OF_ONE, MPI_COMM_WORLD, &request));
        MPI_OK(MPI_Start(&request));
        MPI_OK(MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Request_free(&request));
        break;
    default:
        for (flag = 0; !flag; self->misses += !flag)
            MPI_OK(MPI_Improbe(1, OF_ONE, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Mrecv(value, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    }
}

static void *compete(void *argument)
{
    struct competitor *self = argument;
    for (int i = 0; i < EACH; i++) {
        receive(self, (i + self->number) % KINDS, &self->values[i]);
        int answer = self->number * EACH + i;
        MPI_OK(MPI_Send(&answer, 1, MPI_INT, 1, ANSWER, MPI_COMM_WORLD));
        if (i % 4 == 0)
            jitter();
    }
    return NULL;
}

/* A thread that creates another one. */
static void *compete_with_a_child(void *argument)
{
    struct competitor *child = (struct competitor *)argument + 1;
    CHECK_EQ(pthread_create(&child->thread, NULL, compete, child), 0);
    compete(argument);
    CHECK_EQ(pthread_join(child->thread, NULL), 0);
    return NULL;
}

static void receives(void)
{
    for (int i = 0; i < THREADS; i++)
        competitors[i].number = i;
    for (int i = 0; i < THREADS - 1; i++) {
        void *(*run)(void *) = i == THREADS - 2 ? compete_with_a_child : compete;
        CHECK_EQ(pthread_create(&competitors[i].thread, NULL, run, &competitors[i]), 0);
    }
    cut();
    for (int i = 0; i < THREADS - 1; i++)
        CHECK_EQ(pthread_join(competitors[i].thread, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        test_add(competitors[i].values, sizeof competitors[i].values);
        test_add(&competitors[i].misses, sizeof competitors[i].misses);
    }
}

/* Both send half of the messages that anybody takes. */
static void sends(void)
{
    int any = ALL * 3 / KINDS / 2, of_one = test_rank == 1 ? ALL * 4 / KINDS : 0;
    for (int i = 0; i < any || i < of_one; i++) {
        int value = 10000 * test_rank + i;
        if (i == any / 2)
            cut();
        jitter();
        if (i < any)
            MPI_OK(MPI_Send(&value, 1, MPI_INT, 0, ANY, MPI_COMM_WORLD));
        if (i < of_one)
            MPI_OK(MPI_Send(&value, 1, MPI_INT, 0, OF_ONE, MPI_COMM_WORLD));
    }
    for (int i = 0, answer = 0; test_rank == 1 && i < ALL; i++) {
        MPI_OK(MPI_Recv(&answer, 1, MPI_INT, 0, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_add(&answer, sizeof answer);
    }
}

int main(int argc, char **argv)
{
    test_start_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    if (test_rank == 0)
        receives();
    else
        sends();
    return test_finish("threads");
}

/* Rank 0 posts receives of anybody. Some have got their messages when it comes to the call that the first argument
 * names, in which it waits, and in which the job is killed. The other ranks are at their cut then. Their later messages
 * are synchronous: they need the receives that rank 0 has posted, and not that it has made another call. The output
 * does not depend on the order of messages. */
#include "../stasis_test.h"

enum { SENDERS = 2, EARLY = 4, LATE = 3, ALL = SENDERS * (EARLY + LATE) };
/* Tags: those messages, the answer to the early ones, and what each sender sends at last. */
enum { MESSAGE = 1, ANSWER = 2, LAST = 3 };

static MPI_Request requests[ALL];
static int values[ALL], lasts;

static void receive_last(int source)
{
    int value = 0;
    MPI_OK(MPI_Recv(&value, 1, MPI_INT, source, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    lasts += value;
}

static MPI_Request *one_under_way(void)
{
    int i = 0;
    while (requests[i] == MPI_REQUEST_NULL)
        i++;
    return &requests[i];
}

/* The call in which the job is killed. */
static void last_call(const char *kind)
{
    int flag = 0, index, indices[ALL];
    MPI_Message message;
    if (strcmp(kind, "between") == 0)
        cut_hold();
    else if (strcmp(kind, "MPI_Wait") == 0)
        MPI_OK(MPI_Wait(one_under_way(), MPI_STATUS_IGNORE));
    else if (strcmp(kind, "MPI_Waitall") == 0)
        MPI_OK(MPI_Waitall(ALL, requests, MPI_STATUSES_IGNORE));
    else if (strcmp(kind, "MPI_Waitany") == 0)
        MPI_OK(MPI_Waitany(ALL, requests, &index, MPI_STATUS_IGNORE));
    else if (strcmp(kind, "MPI_Waitsome") == 0)
        MPI_OK(MPI_Waitsome(ALL, requests, &index, indices, MPI_STATUSES_IGNORE));
    else if (strcmp(kind, "MPI_Test") == 0)
        for (MPI_Request *one = one_under_way(); !flag;)
            MPI_OK(MPI_Test(one, &flag, MPI_STATUS_IGNORE));
    else if (strcmp(kind, "MPI_Testany") == 0)
        while (!flag)
            MPI_OK(MPI_Testany(ALL, requests, &index, &flag, MPI_STATUS_IGNORE));
    else if (strcmp(kind, "MPI_Iprobe") == 0)
        while (!flag)
            MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, LAST, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    else if (strcmp(kind, "MPI_Probe") == 0)
        MPI_OK(MPI_Probe(MPI_ANY_SOURCE, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    else if (strcmp(kind, "MPI_Mprobe") == 0) {
        int value = 0;
        MPI_OK(MPI_Mprobe(MPI_ANY_SOURCE, LAST, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
        lasts += value;
    } else if (strcmp(kind, "MPI_Recv") == 0)
        receive_last(MPI_ANY_SOURCE);
    else if (strcmp(kind, "named") == 0)
        receive_last(1);
    else
        CHECK(strcmp(kind, "MPI_Barrier") == 0, "no such call: %s", kind);
}

static void receives(const char *kind)
{
    int index, sum = 0;
    for (int i = 0; i < ALL; i++)
        MPI_OK(MPI_Irecv(&values[i], 1, MPI_INT, MPI_ANY_SOURCE, MESSAGE, MPI_COMM_WORLD, &requests[i]));
    for (int i = 0; i < SENDERS * EARLY; i++) {
        MPI_OK(MPI_Waitany(ALL, requests, &index, MPI_STATUS_IGNORE));
        CHECK(values[index] > 0);
    }
    for (int sender = 1; sender <= SENDERS; sender++)
        MPI_OK(MPI_Send(&index, 1, MPI_INT, sender, ANSWER, MPI_COMM_WORLD));
    cut_announce();
    last_call(kind);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Waitall(ALL, requests, MPI_STATUSES_IGNORE));
    int from_1 = strcmp(kind, "named") == 0;
    for (int i = strcmp(kind, "MPI_Recv") == 0 || strcmp(kind, "MPI_Mprobe") == 0 || from_1; i < SENDERS; i++)
        receive_last(from_1 ? 2 : MPI_ANY_SOURCE);
    for (int i = 0; i < ALL; i++)
        sum += values[i];
    test_add(&sum, sizeof sum);
    test_add(&lasts, sizeof lasts);
}

static void sends(void)
{
    int value = test_rank, answer;
    for (int i = 0; i < EARLY; i++, value += 10)
        MPI_OK(MPI_Send(&value, 1, MPI_INT, 0, MESSAGE, MPI_COMM_WORLD));
    MPI_OK(MPI_Recv(&answer, 1, MPI_INT, 0, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    cut();
    for (int i = 0; i < LATE; i++, value += 10)
        MPI_OK(MPI_Ssend(&value, 1, MPI_INT, 0, MESSAGE, MPI_COMM_WORLD));
    MPI_OK(MPI_Send(&value, 1, MPI_INT, 0, LAST, MPI_COMM_WORLD));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    if (test_rank == 0)
        receives(argc > 1 ? argv[1] : "between");
    else
        sends();
    return test_finish("tail");
}

//#Ranks: 2
//#Cut: hold
//#Flags: -pthread
//#Modes: plain, continue, restart, migrate, cycle, ten
//#Shows: MPI_THREAD_MULTIPLE: seven threads of a rank in seven different MPI calls at the cut, all of which only the other rank's main thread can end
#include "../stasis_test.h"

#include <pthread.h>

enum { N = 5000, WAITING = 7 };

static MPI_Comm comms[WAITING];
static int entered, other;

static void receive_and_verify(MPI_Comm comm, int tag)
{
    static __thread char bytes[N];
    MPI_OK(MPI_Recv(bytes, N, MPI_BYTE, other, tag, comm, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++)
        CHECK_EQ((unsigned char)bytes[i], test_byte((uint32_t)tag, (size_t)i));
}

static void *waits(void *argument)
{
    int kind = (int)(intptr_t)argument, flag = 0, count;
    MPI_Comm comm = comms[kind];
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Message message;
    char bytes[N];
    __atomic_fetch_add(&entered, 1, __ATOMIC_SEQ_CST);
    switch (kind) {
    case 0:
        receive_and_verify(comm, kind);
        break;
    case 1:
        MPI_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
        CHECK_EQ(status.MPI_TAG, kind);
        receive_and_verify(comm, kind);
        break;
    case 2:
        for (int i = 0; i < 2; i++)
            MPI_OK(MPI_Irecv(&bytes[i * 100], 100, MPI_BYTE, other, kind, comm, &requests[i]));
        MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK_EQ((unsigned char)bytes[150], test_byte(2, 50));
        break;
    case 3:
        MPI_OK(MPI_Recv_init(bytes, N, MPI_BYTE, MPI_ANY_SOURCE, kind, comm, &requests[0]));
        MPI_OK(MPI_Start(&requests[0]));
        MPI_OK(MPI_Waitany(1, requests, &count, &status));
        CHECK_EQ((unsigned char)bytes[9], test_byte(3, 9));
        MPI_OK(MPI_Request_free(&requests[0]));
        break;
    case 4:
        MPI_OK(MPI_Mprobe(other, kind, comm, &message, &status));
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, N);
        MPI_OK(MPI_Mrecv(bytes, N, MPI_BYTE, &message, &status));
        CHECK_EQ((unsigned char)bytes[N - 1], test_byte(4, N - 1));
        break;
    case 5:
        MPI_OK(MPI_Irecv(bytes, N, MPI_BYTE, other, kind, comm, &requests[0]));
        while (!flag)
            MPI_OK(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
        CHECK_EQ((unsigned char)bytes[7], test_byte(5, 7));
        break;
    default:
        MPI_OK(MPI_Ssend(bytes, 0, MPI_BYTE, other, kind, comm));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[WAITING];
    static char bytes[N];
    test_start_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    other = 1 - test_rank;
    for (int i = 0; i < WAITING; i++)
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    /* Rank 1's threads wait for rank 0; only rank 1 has any, so that no two wait for each other. */
    if (test_rank == 1) {
        for (intptr_t i = 0; i < WAITING; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, waits, (void *)i), 0);
        while (__atomic_load_n(&entered, __ATOMIC_SEQ_CST) < WAITING)
            sched_yield();
    }
    cut();
    if (test_rank == 1) {
        for (int i = 0; i < WAITING; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
    } else {
        for (int i = 0; i < WAITING; i++) {
            test_fill(bytes, N, (uint32_t)i);
            if (i == 6) {
                MPI_OK(MPI_Recv(NULL, 0, MPI_BYTE, other, i, comms[i], MPI_STATUS_IGNORE));
            } else if (i == 2) {
                for (int n = 0; n < 2; n++)
                    MPI_OK(MPI_Send(bytes, 100, MPI_BYTE, other, i, comms[i]));
            } else {
                MPI_OK(MPI_Send(bytes, N, MPI_BYTE, other, i, comms[i]));
            }
        }
    }
    for (int i = 0; i < WAITING; i++)
        MPI_OK(MPI_Comm_free(&comms[i]));
    return test_finish("multiple");
}

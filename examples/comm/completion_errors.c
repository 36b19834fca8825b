//#Ranks: 2
//#Cut: hold
//#Mpi: openmpi
//#Shows: an error of an operation is raised on that operation's communicator by each call that completes it, whether it failed before the cut or after it
#include "../stasis_test.h"

/* MPI has it so, and Open MPI does it natively; MPICH 4.0 raises all of these on MPI_COMM_WORLD. */
enum { CALLS = 9, LONG = 100, SHORT = 10 };

static int on_watched, on_world, last;
static MPI_Comm watched;

static void handle_watched(MPI_Comm *comm, int *code, ...)
{
    CHECK(*comm == watched, "called for another communicator");
    MPI_OK(MPI_Error_class(*code, &last));
    on_watched++;
}

static void handle_world(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    on_world++;
}

/* Completes a receive that was too short, in the way with this number. */
static void complete(int call, MPI_Request *request)
{
    MPI_Request pair[2] = {MPI_REQUEST_NULL, *request};
    MPI_Status statuses[2];
    int flag = 0, index, count = 0, indices[2], result = MPI_SUCCESS, class, persistent = call == 8;
    on_watched = on_world = last = 0;
    switch (call) {
    case 0:
    case 8:
        result = MPI_Wait(&pair[1], &statuses[1]);
        break;
    case 1:
        while (!flag)
            result = MPI_Test(&pair[1], &flag, &statuses[1]);
        break;
    case 2:
        result = MPI_Waitany(2, pair, &index, &statuses[1]);
        CHECK_EQ(index, 1);
        break;
    case 3:
        while (!flag)
            result = MPI_Testany(2, pair, &index, &flag, &statuses[1]);
        CHECK_EQ(index, 1);
        break;
    case 4:
        result = MPI_Waitall(2, pair, statuses);
        break;
    case 5:
        while (!flag)
            result = MPI_Testall(2, pair, &flag, statuses);
        break;
    case 6:
        result = MPI_Waitsome(2, pair, &count, indices, statuses);
        break;
    case 7:
        while (!count)
            result = MPI_Testsome(2, pair, &count, indices, statuses);
        break;
    }
    CHECK(on_watched == 1 && on_world == 0, "call %d: raised %d times on the communicator, %d on the world", call, on_watched,
          on_world);
    MPI_OK(MPI_Error_class(result, &class));
    if (call >= 4 && call < 8) {
        /* Libraries differ in which of the two codes the handler of the communicator sees. */
        CHECK_EQ(class, MPI_ERR_IN_STATUS);
        MPI_OK(MPI_Error_class(statuses[call < 6].MPI_ERROR, &class));
    }
    CHECK_EQ(class, MPI_ERR_TRUNCATE);
    CHECK(last == MPI_ERR_TRUNCATE || (last == MPI_ERR_IN_STATUS && call >= 4), "call %d raised class %d", call, last);
    *request = pair[1];
    CHECK(persistent || *request == MPI_REQUEST_NULL, "call %d: what has become of the request?", call);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int other = 1 - test_rank;
    static char out[LONG], in[2][CALLS][SHORT];
    MPI_Request receives[2][CALLS], sends[CALLS];
    MPI_Errhandler handler;
    test_fill(out, LONG, (uint32_t)test_rank);
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &watched));
    MPI_OK(MPI_Comm_create_errhandler(handle_watched, &handler));
    MPI_OK(MPI_Comm_set_errhandler(watched, handler));
    MPI_OK(MPI_Errhandler_free(&handler));
    MPI_OK(MPI_Comm_create_errhandler(handle_world, &handler));
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    MPI_OK(MPI_Errhandler_free(&handler));
    for (int late = 0; late < 2; late++)
        for (int call = 0; call < CALLS; call++)
            if (call == CALLS - 1) {
                MPI_OK(MPI_Recv_init(in[late][call], SHORT, MPI_BYTE, other, 20 * late + call, watched, &receives[late][call]));
                MPI_OK(MPI_Start(&receives[late][call]));
            } else {
                MPI_OK(MPI_Irecv(in[late][call], SHORT, MPI_BYTE, other, 20 * late + call, watched, &receives[late][call]));
            }
    for (int call = 0; call < CALLS; call++)
        MPI_OK(MPI_Isend(out, LONG, MPI_BYTE, other, call, watched, &sends[call]));

    cut();

    for (int call = 0; call < CALLS; call++) {
        complete(call, &receives[0][call]);
        MPI_OK(MPI_Wait(&sends[call], MPI_STATUS_IGNORE));
    }
    for (int call = 0; call < CALLS; call++) {
        MPI_OK(MPI_Isend(out, LONG, MPI_BYTE, other, 20 + call, watched, &sends[0]));
        complete(call, &receives[1][call]);
        MPI_OK(MPI_Wait(&sends[0], MPI_STATUS_IGNORE));
    }
    /* A persistent request that failed serves again, where the library has not freed it (Open MPI does). */
    MPI_OK(MPI_Isend(out, SHORT, MPI_BYTE, other, CALLS - 1, watched, &sends[0]));
    if (receives[0][CALLS - 1] == MPI_REQUEST_NULL) {
        MPI_OK(MPI_Recv(in[0][CALLS - 1], SHORT, MPI_BYTE, other, CALLS - 1, watched, MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_Start(&receives[0][CALLS - 1]));
        MPI_OK(MPI_Wait(&receives[0][CALLS - 1], MPI_STATUS_IGNORE));
        MPI_OK(MPI_Request_free(&receives[0][CALLS - 1]));
        MPI_OK(MPI_Request_free(&receives[1][CALLS - 1]));
    }
    test_verify(in[0][CALLS - 1], SHORT, (uint32_t)other);
    MPI_OK(MPI_Wait(&sends[0], MPI_STATUS_IGNORE));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Comm_free(&watched));
    return test_finish("completion_errors");
}

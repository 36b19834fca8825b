/* MPI Stages: rank 1 dies while the others make one call that waits for it. The call must return MPIX_TRY_RELOAD, and
 * after the reload everything works, on the communicators of the last epoch. With `abort` rank 0 calls MPI_Abort before
 * the reload, with code 6.
 *
 * stages_calls DIR CALL */
#include <mpi.h>
#include "stasis_mpix.h"
#include "die_once.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "FAILED: rank %d, %s:%d: %s\n", rank, __FILE__, __LINE__, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 3);                                                         \
        }                                                                                         \
    } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

enum { LARGE = 1 << 20, DEAD = 1 };

static int rank, size;
static char large[LARGE];
static long sums[1000];
static MPI_Comm kept = MPI_COMM_NULL, freed = MPI_COMM_NULL;

static void add(void *in, void *inout, int *count, MPI_Datatype *datatype)
{
    (void)datatype;
    for (int i = 0; i < *count; i++)
        ((long *)inout)[i] += ((long *)in)[i];
}

static int is_dead(const char *dir)
{
    char path[4096];
    path_of_death(path, sizeof path, dir);
    return access(path, F_OK) == 0;
}

/* Says that this rank has left the barrier: no call before the one that is tested may fail. */
static void leave(const char *dir)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/left.%d", dir, rank);
    CHECK(open(path, O_CREAT | O_EXCL | O_WRONLY, 0644) >= 0);
}

/* Dies when all others have left. */
static void die_when_alone(const char *dir)
{
    char path[4096];
    for (int other = 0; other < size; other++) {
        snprintf(path, sizeof path, "%s/left.%d", dir, other);
        while (other != rank && access(path, F_OK) != 0)
            usleep(1000);
    }
    die_once(dir);
}

/* A call before the one that waits, which may come after rank 1's death already. */
#define BEGINS(call)               \
    do {                           \
        int begins = (call);       \
        if (begins != MPI_SUCCESS) \
            return begins;         \
    } while (0)

/* A call that needs rank 1. */
static int wait_in(const char *call, const char *dir)
{
    MPI_Request request, requests[2];
    MPI_Status status, statuses[2];
    MPI_Comm made;
    MPI_Op op;
    int flag = 0, index, code, number = 0;

    if (!strcmp(call, "recv"))
        return MPI_Recv(&number, 1, MPI_INT, DEAD, 1, kept, &status);
    if (!strcmp(call, "ssend"))
        return MPI_Ssend(&number, 1, MPI_INT, DEAD, 1, kept);
    if (!strcmp(call, "send"))
        return MPI_Send(large, LARGE, MPI_CHAR, DEAD, 1, kept);
    if (!strcmp(call, "sendrecv"))
        return MPI_Sendrecv(large, LARGE, MPI_CHAR, DEAD, 1, &number, 1, MPI_INT, DEAD, 1, kept, &status);
    if (!strcmp(call, "probe"))
        return MPI_Probe(DEAD, MPI_ANY_TAG, kept, &status);
    if (!strcmp(call, "wait")) {
        BEGINS(MPI_Irecv(&number, 1, MPI_INT, DEAD, 1, kept, &request));
        return MPI_Wait(&request, &status);
    }
    if (!strcmp(call, "waitall")) {
        BEGINS(MPI_Irecv(&number, 1, MPI_INT, DEAD, 1, kept, &requests[0]));
        BEGINS(MPI_Issend(large, LARGE, MPI_CHAR, DEAD, 2, kept, &requests[1]));
        return MPI_Waitall(2, requests, statuses);
    }
    if (!strcmp(call, "waitany")) {
        BEGINS(MPI_Irecv(&number, 1, MPI_INT, DEAD, 1, kept, &requests[0]));
        BEGINS(MPI_Issend(large, LARGE, MPI_CHAR, DEAD, 2, kept, &requests[1]));
        return MPI_Waitany(2, requests, &index, &status);
    }
    if (!strcmp(call, "test")) {
        BEGINS(MPI_Irecv(&number, 1, MPI_INT, DEAD, 1, kept, &request));
        do
            code = MPI_Test(&request, &flag, &status);
        while (code == MPI_SUCCESS && !flag);
        return code;
    }
    if (!strcmp(call, "persistent")) {
        BEGINS(MPI_Recv_init(&number, 1, MPI_INT, DEAD, 1, kept, &request));
        BEGINS(MPI_Start(&request));
        return MPI_Wait(&request, &status);
    }
    if (!strcmp(call, "barrier") || !strcmp(call, "abort"))
        return MPI_Barrier(kept);
    if (!strcmp(call, "allreduce"))
        return MPI_Allreduce(MPI_IN_PLACE, sums, 1000, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(call, "own-op")) {
        BEGINS(MPI_Op_create(add, 1, &op));
        return MPI_Allreduce(MPI_IN_PLACE, sums, 1000, MPI_LONG, op, MPI_COMM_WORLD);
    }
    if (!strcmp(call, "ibarrier")) {
        BEGINS(MPI_Ibarrier(kept, &request));
        return MPI_Wait(&request, &status);
    }
    if (!strcmp(call, "dup"))
        return MPI_Comm_dup(kept, &made);
    if (!strcmp(call, "free")) {
        /* Freed since the epoch: it is there again after the reload. */
        MPI_Comm gone = freed;
        BEGINS(MPI_Comm_free(&gone));
        return MPI_Barrier(kept);
    }
    if (!strcmp(call, "compute")) {
        while (!is_dead(dir))
            usleep(1000);
        return MPI_Barrier(kept);
    }
    CHECK(!"a known call");
    return MPI_SUCCESS;
}

static void give(MPIX_Handles *handles)
{
    static MPI_Comm both[2];
    both[0] = kept;
    both[1] = freed;
    handles->communicators = both;
    handles->comm_size = 2;
}

static void take(MPIX_Handles handles)
{
    CHECK(handles.comm_size == 2);
    kept = handles.communicators[0];
    freed = handles.communicators[1];
}

int main(int argc, char **argv)
{
    int epoch = -1, sum = 0, dims[1] = {0}, periods[1] = {1}, coords[1] = {-1}, code;
    char text[MPI_MAX_ERROR_STRING];
    if (argc < 3)
        return 2;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPIX_Serialize_handler_register(give));
    OK(MPIX_Deserialize_handler_register(take));
    OK(MPIX_Get_fault_epoch(&epoch));
    if (epoch == 0) {
        MPI_Request request;
        int number = 0, class = -1;
        OK(MPI_Dims_create(size, 1, dims));
        OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &kept));
        OK(MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &freed));
        /* A pending request cannot be saved. */
        OK(MPI_Irecv(&number, 1, MPI_INT, (rank + size - 1) % size, 7, kept, &request));
        code = MPIX_Checkpoint_write();
        CHECK(code != MPI_SUCCESS);
        OK(MPI_Error_class(code, &class));
        CHECK(class == MPI_ERR_PENDING);
        OK(MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 7, kept));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPIX_Checkpoint_write());
        OK(MPIX_Get_fault_epoch(&epoch));
        CHECK(epoch == 1);
        /* All have the epoch before one dies. */
        OK(MPI_Barrier(kept));
        if (rank == DEAD)
            die_when_alone(argv[1]);
        leave(argv[1]);
        code = wait_in(argv[2], argv[1]);
        CHECK(code == MPIX_TRY_RELOAD);
        OK(MPI_Error_class(code, &class));
        CHECK(class == MPIX_TRY_RELOAD);
        OK(MPI_Error_string(code, text, &class));
        CHECK(strstr(text, "MPIX_TRY_RELOAD"));
        /* All later calls, too. */
        CHECK(MPI_Send(&number, 1, MPI_INT, rank, 3, MPI_COMM_SELF) == MPIX_TRY_RELOAD);
        CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPIX_TRY_RELOAD);
        CHECK(MPIX_Checkpoint_write() == MPIX_TRY_RELOAD);
        CHECK(MPI_Finalize() == MPIX_TRY_RELOAD);
        if (rank == 0 && !strcmp(argv[2], "abort"))
            MPI_Abort(MPI_COMM_WORLD, 6);
        MPI_Comm handles[2] = {kept, freed};
        OK(MPIX_Checkpoint_read());
        OK(MPIX_Deserialize_handles());
        CHECK(handles[0] == kept && handles[1] == freed);
    } else {
        CHECK(rank == DEAD);
        OK(MPIX_Deserialize_handles());
    }
    OK(MPIX_Get_fault_epoch(&epoch));
    CHECK(epoch == 1);
    /* Both communicators, with topology and order of ranks. */
    OK(MPI_Cart_coords(kept, rank, 1, coords));
    CHECK(coords[0] == rank);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, kept));
    CHECK(sum == size * (size - 1) / 2);
    int in_freed = -1, first = -1;
    OK(MPI_Comm_rank(freed, &in_freed));
    CHECK(in_freed == size - 1 - rank);
    first = rank;
    OK(MPI_Bcast(&first, 1, MPI_INT, 0, freed));
    CHECK(first == size - 1);
    /* And new ones, and another epoch. */
    MPI_Comm made;
    OK(MPI_Comm_dup(freed, &made));
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (in_freed + 1) % size, 1, &first, 1, MPI_INT, (in_freed + size - 1) % size, 1,
                    made, MPI_STATUS_IGNORE));
    CHECK(first == (rank + 1) % size);
    OK(MPI_Comm_free(&made));
    OK(MPIX_Checkpoint_write());
    OK(MPIX_Get_fault_epoch(&epoch));
    CHECK(epoch == 2);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        printf("OK\n");
    OK(MPI_Finalize());
    return 0;
}

/* MPI Stages with a library that has a communicator of its own, the MM example of the thesis (docs/internals/stages.md).
 * The library duplicates the communicator that it is given, and multiplies matrices by rows. The program does not see
 * the duplicate: the library's handlers save and revive it. The library also has a group, and in each iteration makes
 * and frees a communicator and sends with requests, all of which a fault finds in any state.
 *
 * stages_matrix DIR ITERATIONS [KILLED ITERATION]: with the last two, rank KILLED kills itself once in that iteration,
 * inside the library. A rank says how often it has entered its main loop. */
#include <mpi.h>
#include "stasis_mpix.h"
#include "die_once.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                              \
    do {                                                                       \
        int code = call;                                                       \
        if (code != MPI_SUCCESS)                                               \
            return code;                                                       \
    } while (0)

enum { ROWS_EACH = 8, PRIME = 65521 };

static int rank, size;
static const char *dir;
static int entered, dies;

/* --- the library --- */

static MPI_Comm mm_comm = MPI_COMM_NULL;
static MPI_Group mm_group = MPI_GROUP_NULL;

static void s_handler(MPIX_Handles *handles)
{
    static MPI_Comm communicators[1];
    static MPI_Group groups[1];
    communicators[0] = mm_comm;
    groups[0] = mm_group;
    handles->communicators = communicators;
    handles->comm_size = 1;
    handles->grps = groups;
    handles->group_size = 1;
}

static void d_handler(MPIX_Handles handles)
{
    if (handles.comm_size != 1 || handles.group_size != 1)
        MPI_Abort(MPI_COMM_WORLD, 5);
    mm_comm = handles.comms[0];
    mm_group = handles.groups[0];
}

static int mm_init(MPI_Comm comm)
{
    TRY(MPI_Comm_dup(comm, &mm_comm));
    return MPI_Comm_group(mm_comm, &mm_group);
}

static void mm_register(void)
{
    MPIX_Serialize_handler_register(s_handler);
    MPIX_Deserialize_handler_register(d_handler);
}

/* result = a * b, each process computes its rows. */
static int mm_multiply(int n, const uint32_t *a, const uint32_t *b, uint32_t *result)
{
    uint32_t own[ROWS_EACH * n];
    int from, to, members = 0, me = -1;
    TRY(MPI_Group_size(mm_group, &members));
    TRY(MPI_Comm_rank(mm_comm, &me));
    if (members != size || me != rank)
        MPI_Abort(MPI_COMM_WORLD, 6);
    for (int i = 0; i < ROWS_EACH; i++)
        for (int j = 0; j < n; j++) {
            uint64_t sum = 0;
            for (int k = 0; k < n; k++)
                sum += (uint64_t)a[(me * ROWS_EACH + i) * n + k] * b[k * n + j] % PRIME;
            own[i * n + j] = (uint32_t)(sum % PRIME);
        }
    /* What a step of an iteration makes, and what is under way in it. */
    MPI_Comm step;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    TRY(MPI_Comm_dup(mm_comm, &step));
    TRY(MPI_Irecv(&from, 1, MPI_INT, (me + size - 1) % size, 1, step, &requests[0]));
    TRY(MPI_Isend(&me, 1, MPI_INT, (me + 1) % size, 1, step, &requests[1]));
    if (dies)
        die_once(dir);
    TRY(MPI_Allgather(own, ROWS_EACH * n, MPI_UINT32_T, result, ROWS_EACH * n, MPI_UINT32_T, mm_comm));
    TRY(MPI_Waitall(2, requests, statuses));
    TRY(MPI_Sendrecv(&me, 1, MPI_INT, from, 2, &to, 1, MPI_INT, (me + 1) % size, 2, step, MPI_STATUS_IGNORE));
    return MPI_Comm_free(&step);
}

/* --- the program --- */

struct state {
    int n;
    int iteration;
    uint32_t *a, *b;
};

static FILE *file_of(int epoch, const char *mode)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/app.%d.%d", dir, epoch, rank);
    FILE *file = fopen(path, mode);
    if (!file)
        MPI_Abort(MPI_COMM_WORLD, 3);
    return file;
}

static void save(int epoch, const struct state *state)
{
    size_t cells = (size_t)state->n * state->n;
    FILE *file = file_of(epoch, "w");
    if (fwrite(&state->iteration, sizeof state->iteration, 1, file) != 1 ||
        fwrite(state->a, sizeof *state->a, cells, file) != cells || fclose(file) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static void load(int epoch, struct state *state)
{
    size_t cells = (size_t)state->n * state->n;
    FILE *file = file_of(epoch, "r");
    if (fread(&state->iteration, sizeof state->iteration, 1, file) != 1 ||
        fread(state->a, sizeof *state->a, cells, file) != cells || fclose(file) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static int main_loop(int epoch, int iterations, int killed, int in_iteration, struct state *state, int *done)
{
    size_t cells = (size_t)state->n * state->n;
    uint32_t product[cells];
    TRY(mm_init(MPI_COMM_WORLD));
    mm_register();
    for (size_t i = 0; i < cells; i++)
        state->b[i] = (uint32_t)(i * i + 3) % PRIME;
    if (epoch > 0) {
        TRY(MPIX_Deserialize_handles());
        load(epoch, state);
    } else {
        state->iteration = 0;
        for (size_t i = 0; i < cells; i++)
            state->a[i] = (uint32_t)(7 * i + 1) % PRIME;
    }
    while (state->iteration < iterations) {
        dies = killed == rank && state->iteration == in_iteration;
        TRY(mm_multiply(state->n, state->a, state->b, product));
        memcpy(state->a, product, sizeof product);
        state->iteration++;
        save(++epoch, state);
        TRY(MPIX_Checkpoint_write());
        TRY(MPIX_Serialize_handles());
    }
    TRY(MPI_Barrier(MPI_COMM_WORLD));
    *done = 1;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int code = MPI_SUCCESS, done = 0;
    struct state state = {0, 0, NULL, NULL};
    if (argc < 3)
        return 2;
    dir = argv[1];
    while (!done) {
        int epoch = 0;
        if (code == MPI_SUCCESS) {
            MPI_Init(&argc, &argv);
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Comm_size(MPI_COMM_WORLD, &size);
            state.n = size * ROWS_EACH;
            state.a = (uint32_t *)calloc((size_t)state.n * state.n, sizeof *state.a);
            state.b = (uint32_t *)calloc((size_t)state.n * state.n, sizeof *state.b);
        } else if (code == MPIX_TRY_RELOAD) {
            MPIX_Checkpoint_read();
        } else {
            MPI_Abort(MPI_COMM_WORLD, 4);
        }
        MPIX_Get_fault_epoch(&epoch);
        entered++;
        code = main_loop(epoch, atoi(argv[2]), argc > 4 ? atoi(argv[3]) : -1, argc > 4 ? atoi(argv[4]) : -1,
                         &state, &done);
    }
    uint64_t digest = 0xcbf29ce484222325u;
    for (int i = 0; i < state.n * state.n; i++)
        digest = (digest ^ state.a[i]) * 0x100000001b3u;
    printf("rank %d has entered %d times\n", rank, entered);
    if (rank == 0)
        printf("OK %016llx\n", (unsigned long long)digest);
    MPI_Finalize();
    return 0;
}

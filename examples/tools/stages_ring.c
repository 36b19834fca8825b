/* MPI Stages: the ring of the papers (docs/internals/stages.md). Rank 0 sends a number, which goes around once; then
 * it adds one, and the next ring begins. Each rank takes a checkpoint after it has received the number, and before it
 * sends it on. In `next` its state has the ring that it waits for.
 *
 * stages_ring DIR RINGS [KILLED RING]: with the last two, rank KILLED kills itself once in that ring: rank 0 after
 * it has begun the ring, as in figure 6.1 of the thesis, and another one after its checkpoint. With RING = RINGS it
 * stands still before MPI_Finalize, to be killed. A rank says how often it has entered its main loop: 2 for a survivor
 * of one fault, since its memory goes on, and 1 for the rank that was started anew. */
#include <mpi.h>
#include "stasis_mpix.h"
#include "die_once.h"

#include <stdio.h>
#include <stdlib.h>

static int rank, size;
static const char *dir;
static int entered;

/* The program's own checkpoint. */
struct state {
    int next;
    int value;
};

static void path_of(char *path, size_t room, int epoch)
{
    snprintf(path, room, "%s/app.%d.%d", dir, epoch, rank);
}

static void save(int epoch, const struct state *state)
{
    char path[4096];
    path_of(path, sizeof path, epoch);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(state, sizeof *state, 1, file) != 1 || fclose(file) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static void load(int epoch, struct state *state)
{
    char path[4096];
    path_of(path, sizeof path, epoch);
    FILE *file = fopen(path, "r");
    if (!file || fread(state, sizeof *state, 1, file) != 1 || fclose(file) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

#define TRY(call)                                                              \
    do {                                                                       \
        int code = call;                                                       \
        if (code != MPI_SUCCESS)                                               \
            return code;                                                       \
    } while (0)

static int checkpoint(struct state *state, int *epoch)
{
    state->next++;
    save(*epoch + 1, state);
    TRY(MPIX_Checkpoint_write());
    ++*epoch;
    return MPI_SUCCESS;
}

static int main_loop(int epoch, int rings, int killed, int in_ring, int *done, int *result)
{
    struct state state = {0, 0};
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    if (epoch > 0) {
        load(epoch, &state);
        if (rank == 0)
            printf("epoch %d: goes on by sending %d\n", epoch, state.value);
    }
    fflush(stdout);
    while (state.next < rings) {
        int ring = state.next, value = state.value;
        if (rank == 0) {
            TRY(MPI_Send(&value, 1, MPI_INT, right, ring, MPI_COMM_WORLD));
            if (killed == 0 && ring == in_ring)
                die_once(dir);
        }
        TRY(MPI_Recv(&value, 1, MPI_INT, left, ring, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        state.value = rank == 0 ? value + 1 : value;
        TRY(checkpoint(&state, &epoch));
        if (killed == rank && rank > 0 && ring == in_ring)
            die_once(dir);
        if (rank > 0)
            TRY(MPI_Send(&value, 1, MPI_INT, right, ring, MPI_COMM_WORLD));
    }
    /* No rank finalises while another one may still have to go back. */
    TRY(MPI_Barrier(MPI_COMM_WORLD));
    *result = state.value;
    *done = 1;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int code = MPI_SUCCESS, done = 0, result = -1;
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
        } else if (code == MPIX_TRY_RELOAD) {
            MPIX_Checkpoint_read();
        } else {
            MPI_Abort(MPI_COMM_WORLD, 4);
        }
        MPIX_Get_fault_epoch(&epoch);
        entered++;
        code = main_loop(epoch, atoi(argv[2]), argc > 4 ? atoi(argv[3]) : -1,
                         argc > 4 ? atoi(argv[4]) : -1, &done, &result);
    }
    printf("rank %d has entered %d times\n", rank, entered);
    if (rank == 0)
        printf("OK %d\n", result);
    if (argc > 4 && atoi(argv[3]) == rank && atoi(argv[4]) == atoi(argv[2]))
        for (;;)
            pause();
    MPI_Finalize();
    return 0;
}

/* Reinit (docs/internals/stages.md): rings of messages in a restart point that looks at no code of an error. A number
 * goes around in each ring, and rank 0 adds one to it. The program's own checkpoint of a ring is written when the ring
 * is over. The rank that is started anew and the living ones go on from the newest one that all have.
 *
 * reinit_ring DIR RINGS [KILLED RING]: with the last two, rank KILLED kills itself once in that ring. A rank tells each
 * state in which it enters the restart point. */
#include <mpi.h>
#include "stasis_mpix.h"
#include "die_once.h"

#include <stdio.h>
#include <stdlib.h>

/* The number of the next ring, and the value that comes into it. */
struct state {
    int next;
    int value;
};

static int rank, size;
static const char *dir;
/* It stays in the memory of the ranks that live. */
static int result = -1;

static void path_of(char *path, size_t room, int ring)
{
    snprintf(path, room, "%s/app.%d.%d", dir, ring, rank);
}

static void save(const struct state *state)
{
    char path[4096], whole[4200];
    path_of(path, sizeof path, state->next);
    snprintf(whole, sizeof whole, "%s.new", path);
    FILE *file = fopen(whole, "w");
    if (!file || fwrite(state, sizeof *state, 1, file) != 1 || fclose(file) != 0 || rename(whole, path) != 0)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

/* The newest one that this rank has before or in this ring; ring 0 is the beginning. */
static struct state load(int ring)
{
    struct state state = {0, 0};
    char path[4096];
    for (; ring > 0; ring--) {
        path_of(path, sizeof path, ring);
        FILE *file = fopen(path, "r");
        if (file) {
            if (fread(&state, sizeof state, 1, file) != 1)
                MPI_Abort(MPI_COMM_WORLD, 3);
            fclose(file);
            break;
        }
    }
    return state;
}

static void rings(int argc, char **argv, MPI_Start_state start)
{
    static const char *const names[] = {"NEW", "REINITED", "RESTARTED"};
    int last = atoi(argv[2]);
    int killed = argc > 4 ? atoi(argv[3]) : -1, in_ring = argc > 4 ? atoi(argv[4]) : -1;
    int left = (rank + size - 1) % size, right = (rank + 1) % size, common;
    MPI_Comm ring_comm;
    struct state state;
    printf("rank %d enters %s\n", rank, names[start]);
    fflush(stdout);
    state = load(last);
    MPI_Allreduce(&state.next, &common, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    state = load(common);
    /* Objects of the restart point are made anew each time. */
    MPI_Comm_dup(MPI_COMM_WORLD, &ring_comm);
    while (state.next < last) {
        int value = state.value;
        if (rank == 0) {
            MPI_Send(&value, 1, MPI_INT, right, state.next, ring_comm);
            if (killed == 0 && state.next == in_ring)
                die_once(dir);
        }
        MPI_Recv(&value, 1, MPI_INT, left, state.next, ring_comm, MPI_STATUS_IGNORE);
        state.value = rank == 0 ? value + 1 : value;
        if (killed == rank && rank > 0 && state.next == in_ring)
            die_once(dir);
        if (rank > 0)
            MPI_Send(&value, 1, MPI_INT, right, state.next, ring_comm);
        state.next++;
        save(&state);
    }
    MPI_Comm_free(&ring_comm);
    result = state.value;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    dir = argv[1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (MPI_Reinit(argc, argv, rings) != MPI_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 4);
    if (rank == 0)
        printf("OK %d\n", result);
    MPI_Finalize();
    return 0;
}

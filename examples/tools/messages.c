/* A profiler to preload that counts messages by the name of their communicator, and asks MPI about each of them as
 * tools do: by the names that begin with PMPI_. The program reads the counts by `messages_seen`. A report comes in
 * MPI_Finalize. */
#include <mpi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENDS, RECEIVES, BYTES, COMPLETED, WAITS, TESTS, KINDS };
enum { COMMS = 32, UNDER_WAY = 4096 };

static struct {
    char name[MPI_MAX_OBJECT_NAME];
    long counts[KINDS];
} table[COMMS];
static struct {
    MPI_Request request;
    int comm;
} under_way[UNDER_WAY];
static MPI_Comm known[COMMS];
static int used, requests, knows;
static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what)
{
    fprintf(stderr, "FAILED: the profiler: %s\n", what);
    PMPI_Abort(MPI_COMM_WORLD, 3);
    _Exit(3);
}

static int named(const char *name)
{
    for (int i = 0; i < used; i++)
        if (!strcmp(table[i].name, name))
            return i;
    if (used == COMMS)
        fail("there are too many communicators");
    strcpy(table[used].name, name);
    return used++;
}

/* The place of a communicator, of which all is asked that a tool may want. */
static int place_of(MPI_Comm comm, int peer)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, rank, size, inter, others;
    MPI_Group group;
    PMPI_Comm_get_name(comm, name, &length);
    PMPI_Comm_rank(comm, &rank);
    PMPI_Comm_size(comm, &size);
    PMPI_Comm_test_inter(comm, &inter);
    for (int i = 0;; i++) {
        if (i == knows)
            fail("it has not seen that the communicator was made");
        if (known[i] == comm)
            break;
    }
    if (inter) {
        PMPI_Comm_remote_size(comm, &others);
        if (peer >= others)
            fail("no such peer");
    } else {
        PMPI_Comm_group(comm, &group);
        PMPI_Group_size(group, &others);
        PMPI_Group_free(&group);
        if (others != size || rank < 0 || rank >= size || peer >= size || peer == rank)
            fail("the communicator is no right one");
    }
    return named(name);
}

static void begins(int kind, int count, MPI_Datatype type, int peer, MPI_Comm comm, MPI_Request request)
{
    int size;
    pthread_mutex_lock(&alone);
    int at = place_of(comm, peer);
    PMPI_Type_size(type, &size);
    table[at].counts[kind]++;
    if (kind == SENDS)
        table[at].counts[BYTES] += (long)count * size;
    if (requests == UNDER_WAY)
        fail("there are too many requests");
    under_way[requests].request = request;
    under_way[requests++].comm = at;
    pthread_mutex_unlock(&alone);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    int code = PMPI_Isend(buf, count, type, peer, tag, comm, request);
    begins(SENDS, count, type, peer, comm, *request);
    return code;
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request)
{
    int code = PMPI_Irecv(buf, count, type, peer, tag, comm, request);
    begins(RECEIVES, count, type, peer, comm, *request);
    return code;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
    int relation, code = PMPI_Comm_dup(comm, copy);
    PMPI_Comm_compare(comm, *copy, &relation);
    if (relation != MPI_CONGRUENT)
        fail("a duplicate is not one");
    pthread_mutex_lock(&alone);
    if (knows == COMMS)
        fail("there are too many duplicates");
    known[knows++] = *copy;
    pthread_mutex_unlock(&alone);
    return code;
}

/* Takes the places of requests out of the list: another thread may get their handles when they are complete. */
static int *taken(int count, const MPI_Request *handles)
{
    int *places = malloc((count + 1) * sizeof *places);
    pthread_mutex_lock(&alone);
    for (int i = 0; i < count; i++) {
        places[i] = -1;
        for (int k = 0; k < requests; k++)
            if (under_way[k].request == handles[i]) {
                places[i] = under_way[k].comm;
                under_way[k] = under_way[--requests];
                break;
            }
    }
    pthread_mutex_unlock(&alone);
    return places;
}

static void complete(int kind, int count, int *places, const MPI_Status *statuses)
{
    pthread_mutex_lock(&alone);
    for (int i = 0, first = 1; i < count; i++) {
        int bytes = 0;
        if (places[i] < 0)
            continue;
        table[places[i]].counts[COMPLETED]++;
        table[places[i]].counts[kind] += first;
        first = 0;
        if (statuses)
            PMPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
        if (bytes < 0)
            fail("a status has no count");
    }
    pthread_mutex_unlock(&alone);
    free(places);
}

int MPI_Waitall(int count, MPI_Request *handles, MPI_Status *statuses)
{
    int *places = taken(count, handles);
    int code = PMPI_Waitall(count, handles, statuses);
    complete(WAITS, count, places, code == MPI_SUCCESS && statuses != MPI_STATUSES_IGNORE ? statuses : NULL);
    return code;
}

int MPI_Testall(int count, MPI_Request *handles, int *flag, MPI_Status *statuses)
{
    int *places = taken(count, handles);
    int code = PMPI_Testall(count, handles, flag, statuses);
    if (code != MPI_SUCCESS || *flag) {
        complete(TESTS, count, places, code == MPI_SUCCESS && statuses != MPI_STATUSES_IGNORE ? statuses : NULL);
        return code;
    }
    pthread_mutex_lock(&alone);
    for (int i = 0; i < count; i++)
        if (places[i] >= 0) {
            under_way[requests].request = handles[i];
            under_way[requests++].comm = places[i];
        }
    pthread_mutex_unlock(&alone);
    free(places);
    return code;
}

long messages_seen(const char *comm, int kind)
{
    pthread_mutex_lock(&alone);
    long count = table[named(comm)].counts[kind];
    pthread_mutex_unlock(&alone);
    return count;
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < used; i++)
        printf("messages: rank %d, %s: %ld sends, %ld receives, %ld bytes, %ld completed\n", rank, table[i].name,
               table[i].counts[SENDS], table[i].counts[RECEIVES], table[i].counts[BYTES],
               table[i].counts[COMPLETED]);
    fflush(stdout);
    return PMPI_Finalize();
}

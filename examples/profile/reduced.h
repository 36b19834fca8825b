/* Collective operations that are reduced to messages, which a profiler sees (tools/messages.c): as many as the
 * algorithm makes, before the cut and after it. */
#include "../stasis_test.h"

#include <dlfcn.h>
#include <pthread.h>

enum { N = 12, SENDS = 0, RECEIVES, BYTES, COMPLETED, WAITS, TESTS };

/* What one rank has sent and received over a communicator, as its algorithms have it. */
struct made {
    MPI_Comm comm;
    long sends, receives, bytes;
};

static long (*messages_seen)(const char *, int);

static void expect(struct made *made, int sends, int receives, int bytes)
{
    made->sends += sends;
    made->receives += receives;
    made->bytes += (long)sends * bytes;
}

static int has_parent(int place) { return place != 0; }

/* Messages to those below a place of the binomial tree. */
static int children(int place)
{
    int found = 0, distance = 1;
    if (!TREE)
        return place == 0 ? test_size - 1 : 0;
    while (distance < test_size && !(place & distance))
        distance *= 2;
    while ((distance /= 2) > 0)
        found += place + distance < test_size;
    return found;
}

static void expect_bcast(struct made *made, int root, int bytes)
{
    int place = (test_rank - root + test_size) % test_size;
    expect(made, children(place), has_parent(place), bytes);
}

static void expect_reduce(struct made *made, int bytes)
{
    expect(made, has_parent(test_rank), children(test_rank), bytes);
}

static void expect_allreduce(struct made *made, int bytes)
{
    expect_reduce(made, bytes);
    expect_bcast(made, 0, bytes);
}

static void expect_barrier(struct made *made)
{
    int steps = 0;
    if (!TREE) {
        expect_allreduce(made, 0);
        return;
    }
    while (1 << steps < test_size)
        steps++;
    expect(made, steps, steps, 0);
}

static void check(const struct made *made)
{
    char own[MPI_MAX_OBJECT_NAME], name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_OK(MPI_Comm_get_name(made->comm, own, &length));
    snprintf(name, sizeof name, "stasis: reduced of %.40s", own);
    CHECK_EQ(messages_seen(name, SENDS), made->sends);
    CHECK_EQ(messages_seen(name, RECEIVES), made->receives);
    CHECK_EQ(messages_seen(name, BYTES), made->bytes);
    CHECK_EQ(messages_seen(name, COMPLETED), made->sends + made->receives);
}

static void blocking(struct made *made, int step)
{
    int in[N], sum[N], all[8 * N], root = step % test_size;
    for (int i = 0; i < N; i++)
        in[i] = 100 * test_rank + i + step;
    MPI_OK(MPI_Barrier(made->comm));
    expect_barrier(made);
    memcpy(sum, in, sizeof sum);
    MPI_OK(MPI_Bcast(sum, N, MPI_INT, root, made->comm));
    CHECK_EQ(sum[1], 100 * root + 1 + step);
    expect_bcast(made, root, sizeof sum);
    MPI_OK(MPI_Allreduce(in, sum, N, MPI_INT, MPI_SUM, made->comm));
    CHECK_EQ(sum[2], 100 * test_size * (test_size - 1) / 2 + test_size * (2 + step));
    expect_allreduce(made, sizeof sum);
    MPI_OK(MPI_Allgather(in, N, MPI_INT, all, N, MPI_INT, made->comm));
    CHECK_EQ(all[(test_size - 1) * N], 100 * (test_size - 1) + step);
    expect(made, test_size - 1, test_size - 1, sizeof in);
}

/* The thread waits for nothing in between: the operations are true schedules. */
static void start(struct made *made, int *in, int *sum, MPI_Request requests[3])
{
    MPI_OK(MPI_Ibarrier(made->comm, &requests[0]));
    MPI_OK(MPI_Iallreduce(in, sum, N, MPI_INT, MPI_MAX, made->comm, &requests[1]));
    MPI_OK(MPI_Ibcast(in, N, MPI_INT, 1, made->comm, &requests[2]));
    expect_barrier(made);
    expect_allreduce(made, N * sizeof *in);
    expect_bcast(made, 1, N * sizeof *in);
}

static void finish(MPI_Request requests[3])
{
    int done = 0;
    while (!done)
        MPI_OK(MPI_Test(&requests[1], &done, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
}

static void nonblocking(struct made *made, void (*between)(void))
{
    int in[N] = {test_rank}, sum[N], again[N] = {10 + test_rank}, more[N];
    MPI_Request requests[6];
    /* The last rank comes when others have started, and have told it so. */
    if (test_rank == test_size - 1)
        for (int rank = 0, got; rank < test_size - 1; rank++)
            MPI_OK(MPI_Recv(&got, 1, MPI_INT, rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    start(made, in, sum, requests);
    start(made, again, more, requests + 3);
    if (test_rank != test_size - 1)
        MPI_OK(MPI_Send(&test_rank, 1, MPI_INT, test_size - 1, 7, MPI_COMM_WORLD));
    between();
    finish(requests + 3);
    finish(requests);
    CHECK_EQ(sum[0], test_size - 1);
    CHECK_EQ(more[0], 10 + test_size - 1);
    CHECK_EQ(again[0], 11);
}

static void nothing(void) {}

/* The error is raised over the program's communicator, once. */
static int raised;
static MPI_Comm raised_on;
static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    raised++;
    raised_on = *comm;
}

static void errors(void)
{
    MPI_Comm comm;
    MPI_Errhandler handler;
    int buffer[N], class;
    MPI_OK(MPI_Comm_create_errhandler(on_error, &handler));
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int blocks = 1; blocks >= 0; blocks--) {
        MPI_Request request;
        int code;
        raised = 0;
        memset(buffer, 0, sizeof buffer);
        int count = test_rank == 0 ? N : 1;
        if (blocks) {
            code = MPI_Bcast(buffer, count, MPI_INT, 0, comm);
        } else {
            MPI_OK(MPI_Ibcast(buffer, count, MPI_INT, 0, comm, &request));
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_OK(MPI_Error_class(code, &class));
        CHECK_EQ(class, test_rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE);
        CHECK_EQ(raised, test_rank != 0);
        CHECK(raised == 0 || raised_on == comm, "it was raised over another communicator");
    }
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    MPI_OK(MPI_Errhandler_free(&handler));
    MPI_OK(MPI_Comm_free(&comm));
}

#if MPI_VERSION >= 4
static void persistent(struct made *made, void (*between)(void))
{
    const char *unnamed = "stasis: reduced of a communicator of 3 processes";
    int in[N], sum[N];
    MPI_Request requests[2];
    /* Each request has a communicator of its own, without a name. */
    struct made starts = {.sends = messages_seen(unnamed, SENDS), .receives = messages_seen(unnamed, RECEIVES)};
    MPI_OK(MPI_Barrier_init(made->comm, MPI_INFO_NULL, &requests[0]));
    MPI_OK(MPI_Allreduce_init(in, sum, N, MPI_INT, MPI_SUM, made->comm, MPI_INFO_NULL, &requests[1]));
    for (int step = 0; step < 4; step++) {
        for (int i = 0; i < N; i++)
            in[i] = test_rank + step;
        MPI_OK(MPI_Startall(2, requests));
        expect_barrier(&starts);
        expect_allreduce(&starts, sizeof in);
        if (step == 1)
            between();
        MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK_EQ(sum[N - 1], test_size * (test_size - 1) / 2 + test_size * step);
    }
    MPI_OK(MPI_Request_free(&requests[0]));
    MPI_OK(MPI_Request_free(&requests[1]));
    CHECK_EQ(messages_seen(unnamed, SENDS), starts.sends);
    CHECK_EQ(messages_seen(unnamed, RECEIVES), starts.receives);
}
#else
static void persistent(struct made *made, void (*between)(void))
{
    (void)made;
    between();
}
#endif

static void *in_thread(void *made)
{
    for (int step = 0; step < 3; step++)
        blocking(made, step);
    nonblocking(made, nothing);
    return NULL;
}

static void loop(struct made made[2])
{
    /* cut_more is a broadcast over the first. */
    for (int step = 0, more = 1; more; step++) {
        pthread_t thread;
        more = cut_more(step, 6, made[0].comm);
        expect_bcast(&made[0], 0, sizeof more);
        CHECK_EQ(pthread_create(&thread, NULL, in_thread, &made[1]), 0);
        blocking(&made[0], step);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
}

int main(int argc, char **argv)
{
    struct made made[3] = {{.comm = MPI_COMM_WORLD}};
    MPI_Request request;
    test_start_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    void *found = dlsym(RTLD_DEFAULT, "messages_seen");
    CHECK(found, "no profiler is preloaded");
    memcpy(&messages_seen, &found, sizeof found);
    errors();
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &made[0].comm));
    MPI_OK(MPI_Comm_set_name(made[0].comm, "first"));
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, test_rank, &made[1].comm));
    MPI_OK(MPI_Comm_set_name(made[1].comm, "second"));
    MPI_OK(MPI_Comm_idup(made[1].comm, &made[2].comm, &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Comm_set_name(made[2].comm, "third"));
    if (test_is(argc, argv, "loop")) {
        loop(made);
    } else {
        for (int i = 0; i < 3; i++) {
            blocking(&made[i], i);
            nonblocking(&made[i], nothing);
            check(&made[i]);
        }
        if (test_is(argc, argv, "started"))
            nonblocking(&made[2], cut);
        else if (test_is(argc, argv, "persistent"))
            persistent(&made[0], cut);
        else
            cut();
        for (int i = 0; i < 3; i++)
            blocking(&made[i], i);
    }
    for (int i = 0; i < 3; i++)
        check(&made[i]);
    CHECK(messages_seen("stasis: reduced of first", WAITS) > 0, "no wait was seen");
    return test_finish_loop("reduced");
}

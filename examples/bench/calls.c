/* How long MPI calls take: many short windows, of which the fastest and the median are printed
 * (nanoseconds a call), so that a busy machine does little harm. Two ranks.
 *
 * Compiled with CROSSINGS, it writes the thread pointer before and after each call, as whoever has
 * two C libraries in one process must: native calls with that are the floor of any such design on
 * this processor, and what is above it is our own code. Calls that never cross do without. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOWS = 120, BIG = 1 << 20, MANY = 64 };
static char *out, *in;
static int rank;
static MPI_Win window;
static MPI_Request never;
static volatile int sink;

#ifdef CROSSINGS
static unsigned long thread_pointer;
#define READ_THREAD_POINTER __asm__ volatile("rdfsbase %0" : "=r"(thread_pointer))
#define WRITE_THREAD_POINTER __asm__ volatile("wrfsbase %0" ::"r"(thread_pointer) : "memory")
#else
#define READ_THREAD_POINTER
#define WRITE_THREAD_POINTER
#endif
#define CROSSING(call)                                                                             \
    do {                                                                                           \
        WRITE_THREAD_POINTER;                                                                      \
        call;                                                                                      \
        WRITE_THREAD_POINTER;                                                                      \
    } while (0)

static void ping_pong(int i, int n)
{
    (void)i;
    if (rank == 0) {
        CROSSING(MPI_Send(out, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
        CROSSING(MPI_Recv(in, n, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        CROSSING(MPI_Recv(in, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CROSSING(MPI_Send(out, n, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
    }
}

static void allreduce(int i, int n)
{
    (void)i;
    CROSSING(MPI_Allreduce(out, in, n / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
}

static void barrier(int i, int n)
{
    (void)i;
    (void)n;
    CROSSING(MPI_Barrier(MPI_COMM_WORLD));
}

/* The root changes, or it would only measure how fast a root can run ahead. */
static void bcast(int i, int n)
{
    CROSSING(MPI_Bcast(out, n, MPI_BYTE, i & 1, MPI_COMM_WORLD));
}

static void ibcast(int i, int n)
{
    MPI_Request request;
    CROSSING(MPI_Ibcast(out, n, MPI_BYTE, i & 1, MPI_COMM_WORLD, &request));
    CROSSING(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void isend_irecv(int i, int n)
{
    (void)i;
    MPI_Request requests[2];
    CROSSING(MPI_Irecv(in, n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[0]));
    CROSSING(MPI_Isend(out, n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[1]));
    CROSSING(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
}

static void sendrecv(int i, int n)
{
    (void)i;
    CROSSING(MPI_Sendrecv(out, n, MPI_BYTE, 1 - rank, 0, in, n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
}

static void many(int i, int n)
{
    (void)i;
    MPI_Request requests[2 * MANY];
    for (int k = 0; k < MANY; k++) {
        CROSSING(MPI_Irecv(in + k * n, n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[k]));
        CROSSING(MPI_Isend(out + k * n, n, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &requests[MANY + k]));
    }
    CROSSING(MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE));
}

static void alltoall(int i, int n)
{
    (void)i;
    CROSSING(MPI_Alltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD));
}

/* A test and a probe that find nothing. */
static void test(int i, int n)
{
    (void)i;
    (void)n;
    int flag;
    CROSSING(MPI_Test(&never, &flag, MPI_STATUS_IGNORE));
    sink = flag;
}

static void iprobe(int i, int n)
{
    (void)i;
    (void)n;
    int flag;
    CROSSING(MPI_Iprobe(1 - rank, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    sink = flag;
}

static void put_flush(int i, int n)
{
    (void)i;
    CROSSING(MPI_Put(out, n, MPI_BYTE, 1 - rank, 0, n, MPI_BYTE, window));
    CROSSING(MPI_Win_flush(1 - rank, window));
}

static void get_fence(int i, int n)
{
    (void)i;
    CROSSING(MPI_Get(in, n, MPI_BYTE, 1 - rank, 0, n, MPI_BYTE, window));
    CROSSING(MPI_Win_fence(0, window));
}

/* As libraries for global arrays access a window. */
static void lock_get(int i, int n)
{
    (void)i;
    CROSSING(MPI_Win_lock(MPI_LOCK_SHARED, 1 - rank, 0, window));
    CROSSING(MPI_Get(in, n, MPI_BYTE, 1 - rank, 0, n, MPI_BYTE, window));
    CROSSING(MPI_Win_unlock(1 - rank, window));
}

static void type_size(int i, int n)
{
    (void)i;
    (void)n;
    int size;
    MPI_Type_size(MPI_DOUBLE, &size);
    sink = size;
}

static void get_count(int i, int n)
{
    (void)i;
    (void)n;
    static MPI_Status status;
    int count;
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    sink = count;
}

static void comm_rank(int i, int n)
{
    (void)i;
    (void)n;
    int r;
    MPI_Comm_rank(MPI_COMM_WORLD, &r);
    sink = r;
}

static void lock_all(void)
{
    MPI_Win_lock_all(0, window);
}

static void unlock_all(void)
{
    MPI_Win_unlock_all(window);
}

static void fence(void)
{
    MPI_Win_fence(0, window);
}

static void last_fence(void)
{
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
}

static void post(void)
{
    MPI_Irecv(in, 1, MPI_BYTE, 1 - rank, 99, MPI_COMM_WORLD, &never);
}

static void send_it(void)
{
    MPI_Send(out, 1, MPI_BYTE, 1 - rank, 99, MPI_COMM_WORLD);
    MPI_Wait(&never, MPI_STATUS_IGNORE);
}

static const struct {
    const char *name;
    void (*call)(int, int);
    int bytes, times;
    void (*before)(void), (*after)(void);
} calls[] = {
    {"pingpong_8", ping_pong, 8, 1000},
    {"pingpong_4k", ping_pong, 4096, 400},
    {"pingpong_64k", ping_pong, 65536, 60},
    {"pingpong_1m", ping_pong, BIG, 8},
    {"allreduce_8", allreduce, 8, 1000},
    {"barrier", barrier, 0, 1000},
    {"bcast_8", bcast, 8, 1000},
    {"sendrecv_8", sendrecv, 8, 1000},
    {"isend_irecv_waitall_8", isend_irecv, 8, 1000},
    {"ibcast_wait_8", ibcast, 8, 1000},
    {"isend_irecv_waitall_1k", isend_irecv, 1024, 1000},
    {"ibcast_wait_1k", ibcast, 1024, 1000},
    {"many_8", many, 8, 20},
    {"allreduce_1k", allreduce, 1024, 1000},
    {"alltoall_8", alltoall, 8, 1000},
    {"test_nothing", test, 0, 10000, post, send_it},
    {"iprobe_nothing", iprobe, 0, 10000},
    {"put_flush_8", put_flush, 8, 1000, lock_all, unlock_all},
    {"get_fence_8", get_fence, 8, 500, fence, last_fence},
    {"lock_get_unlock_8", lock_get, 8, 500},
    {"comm_rank", comm_rank, 0, 100000},
    {"type_size", type_size, 0, 100000},
    {"get_count", get_count, 0, 100000},
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    READ_THREAD_POINTER;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    out = calloc(BIG, 1);
    in = calloc(BIG, 1);
    memset(out, 1, BIG);
    memset(in, 1, BIG);
    void *memory;
    MPI_Win_allocate(BIG, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        if (argc > 1 && strcmp(argv[1], calls[c].name))
            continue;
        double ns[WINDOWS];
        if (calls[c].before)
            calls[c].before();
        for (int w = -5; w < WINDOWS; w++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            for (int i = 0; i < calls[c].times; i++)
                calls[c].call(i, calls[c].bytes);
            double took = (MPI_Wtime() - start) / calls[c].times * 1e9;
            if (w >= 0)
                ns[w] = took;
        }
        if (calls[c].after)
            calls[c].after();
        qsort(ns, WINDOWS, sizeof *ns, ascending);
        if (rank == 0)
            printf("%s %.2f %.2f\n", calls[c].name, ns[0], ns[WINDOWS / 2]);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}

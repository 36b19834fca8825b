//#Ranks: 2
//#Cut: loop
//#Flags: -pthread
//#Timeout: 40
//#Shows: random correct MPI: what `cargo xtask torture` runs, with an argument SEED-ROUNDS-THREADS
/* Every rank derives the same schedule from the seed, so each knows who sends what to whom over
 * which communicator, and checks every byte that it gets.
 *
 * A schedule is a sequence of rounds that all ranks go through in the same order:
 *   1. operations are initiated that do not block: sends, receives (of this round or left over from
 *      an earlier one), persistent requests, collectives; each rank in an order of its own;
 *   2. operations that block, in the order of the schedule: messages, exchanges, collectives,
 *      constructors and destructors of communicators;
 *   3. some of those initiated are completed, each rank in a way of its own.
 * Now and then one rank is late: it stays outside of a blocking collective operation, in which all others
 * wait, until the harness has committed a checkpoint.
 *
 * Nothing waits for what is only done in a later round or later in the same, so no round can
 * deadlock, whatever MPI buffers.
 *
 * With THREADS > 0, so many threads run a schedule each on a duplicate of MPI_COMM_WORLD. */
#include "collective.h"
#include "comms.h"

#include <pthread.h>
#include <sys/stat.h>

enum { ATTACHED = 1 << 20, OLD = 8, PARTS = 10, LATE = 40 };

/* What this rank has to initiate or complete. */
typedef struct {
    op *o;
    int side;
} entry;

SHARED int grequest_query(void *extra, MPI_Status *status)
{
    MPI_OK(MPI_Status_set_elements(status, MPI_INT, (int)(intptr_t)extra));
    MPI_OK(MPI_Status_set_cancelled(status, 0));
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}
SHARED int grequest_free(void *extra) { return (void)extra, MPI_SUCCESS; }
SHARED int grequest_cancel(void *extra, int done) { return (void)extra, (void)done, MPI_SUCCESS; }

/* Operations that concern nobody else: a receive to be cancelled, a generalized request. */
SHARED void draw_local(world *w, int kind)
{
    int slot = draw_slot(w, 0);
    op *o = free_op(w);
    if (!o)
        return;
    o->kind = kind;
    o->message.id = next_id(w);
    o->message.slot = slot;
    o->mine[0] = kind == GENERALIZED || is_member(&w->slots[slot], w->rank);
}

SHARED void initiate(world *w, op *o, int side)
{
    MPI_Request *r = &o->request[0];
    if (o->kind == MESSAGE) {
        (side ? nonblocking_receive : nonblocking_send)(w, o);
    } else if (o->kind == COLLECTIVE) {
        call_collective(w, o->collective, r);
    } else if (o->kind == GENERALIZED) {
        MPI_OK(MPI_Grequest_start(grequest_query, grequest_free, grequest_cancel,
                                  (void *)(intptr_t)(o->message.id % 100), r));
    } else {
        o->in = typed_empty((shape){0, 10, PLAIN});
        MPI_OK(MPI_Irecv(o->in.memory, 10, MPI_BYTE, MPI_ANY_SOURCE, NEVER_TAG, comm_of(w, &o->message), r));
    }
}

/* Must `a` be initiated before `b` by a rank that does both? */
SHARED int goes_before(const entry *a, const entry *b)
{
    const message *m = &a->o->message, *n = &b->o->message;
    if (a->o->kind != b->o->kind || a->side != b->side || m->id >= n->id)
        return 0;
    if (a->o->kind == COLLECTIVE)
        return m->slot == n->slot;
    return a->o->kind == MESSAGE && same_class(m, n);
}

/* Initiates in a random order that MPI allows. */
SHARED void initiate_all(world *w, entry *list, int n)
{
    while (n > 0) {
        int i = draw_below(&w->own, n);
        for (int j = 0; j < n; j++)
            if (goes_before(&list[j], &list[i])) {
                i = j;
                j = -1;
            }
        initiate(w, list[i].o, list[i].side);
        list[i] = list[--n];
        if (draw_odds(&w->own, 1, 6))
            compute(w);
    }
}

SHARED void finish(world *w, op *o, int side, const MPI_Status *status)
{
    uint32_t id = o->message.id;
    int flag, count;
    if (o->kind == MESSAGE) {
        finish_side(w, o, side, status);
        return;
    }
    o->mine[0] = 0;
    if (o->kind == COLLECTIVE) {
        finish_collective(w, o->collective);
        free(o->collective);
        return;
    }
    MPI_OK(MPI_Test_cancelled(status, &flag));
    CHECK_EQ(flag, o->kind == CANCELLED);
    if (o->kind == CANCELLED) {
        typed_check(&(typed){.shape = {0, 0, PLAIN}, .bytes = o->in.bytes, .memory = o->in.memory}, 0, "cancelled", id);
        typed_free(&o->in);
    } else {
        MPI_OK(MPI_Get_elements(status, MPI_INT, &count));
        CHECK_EQ(count, id % 100);
    }
    note(w, id * 2);
}

SHARED MPI_Request *request_of(world *w, const entry *e)
{
    if (e->o->kind != MESSAGE || e->o->message.send != PERSISTENT)
        return &e->o->request[e->side];
    channel *c = &w->channels[e->o->channel];
    return e->side ? &c->receive : &c->send;
}

/* Requests are copied into an array for the call and back afterwards. */
SHARED void complete_all(world *w, entry *list, int n)
{
    MPI_Request r[2 * OPS];
    MPI_Status status[2 * OPS];
    int index[2 * OPS], done = 0, flag = 0, at, how = draw_below(&w->own, 8);
    for (int i = 0; i < n; i++) {
        op *o = list[i].o;
        if (o->kind == CANCELLED)
            MPI_OK(MPI_Cancel(&o->request[0]));
        if (o->kind == GENERALIZED)
            MPI_OK(MPI_Grequest_complete(o->request[0]));
    }
    for (int i = n - 1; i > 0; i--) {
        int j = draw_below(&w->own, i + 1);
        entry other = list[j];
        list[j] = list[i];
        list[i] = other;
    }
    for (int i = 0; i < n; i++)
        r[i] = *request_of(w, &list[i]);
    while (done < n) {
        int found = 1;
        switch (how) {
        case 0:
            MPI_OK(MPI_Wait(&r[done], &status[0]));
            index[0] = done;
            break;
        case 1:
        case 2:
            if (how == 1)
                MPI_OK(MPI_Waitall(n, r, status));
            else
                MPI_OK(MPI_Testall(n, r, &flag, status));
            found = how == 1 || flag ? n : 0;
            for (int i = 0; i < n; i++)
                index[i] = i;
            break;
        case 3:
            MPI_OK(MPI_Waitany(n, r, &at, &status[0]));
            index[0] = at;
            break;
        case 4:
            MPI_OK(MPI_Testany(n, r, &at, &flag, &status[0]));
            index[0] = at;
            found = flag;
            break;
        case 5:
            MPI_OK(MPI_Waitsome(n, r, &found, index, status));
            break;
        case 6:
            MPI_OK(MPI_Testsome(n, r, &found, index, status));
            break;
        case 7:
            at = draw_below(&w->own, n);
            found = 0;
            if (list[at].o) {
                MPI_OK(MPI_Test(&r[at], &found, &status[0]));
                index[0] = at;
            }
            break;
        }
        CHECK(found >= 0 && found <= n, "%d requests of %d", found, n);
        for (int i = 0; i < found; i++) {
            entry *e = &list[index[i]];
            CHECK(index[i] >= 0 && index[i] < n && e->o, "request %d of %d completes twice", index[i], n);
            *request_of(w, e) = r[index[i]];
            finish(w, e->o, e->side, &status[i]);
            e->o = NULL;
        }
        done += found;
        if (found == 0)
            sched_yield();
    }
}

/* Looks whether something of this rank is done already. */
SHARED void look_early(world *w)
{
    for (int k = 0; k < 3; k++) {
        op *o = &w->ops[draw_below(&w->own, OPS)];
        entry e = {o, draw_below(&w->own, 2)};
        MPI_Status status;
        int flag, again;
        if (!o->used || !o->mine[e.side] || o->kind == CANCELLED || o->kind == GENERALIZED)
            continue;
        MPI_OK(MPI_Request_get_status(*request_of(w, &e), &again, &status));
        MPI_OK(MPI_Test(request_of(w, &e), &flag, &status));
        CHECK(flag || !again, "operation %u was complete and is not any more", o->message.id);
        if (flag)
            finish(w, o, e.side, &status);
    }
}

/* Initiates what was drawn for this round, and, if `all`, everything that was left for later. */
SHARED void first_part(world *w, int all)
{
    entry list[2 * OPS];
    int n = 0;
    for (int i = 0; i < OPS; i++) {
        op *o = &w->ops[i];
        if (!o->used || o->kind != MESSAGE)
            continue;
        if (o->sent == LATER && (all || (draw_odds(&w->all, 1, 2) && is_first(w, o, 0))))
            o->sent = NOW;
        if (o->received == LATER && (all || (draw_odds(&w->all, 1, 2) && is_first(w, o, 1))))
            o->received = NOW;
    }
    for (int i = 0; i < OPS; i++) {
        op *o = &w->ops[i];
        if (!o->used)
            continue;
        if (o->kind != MESSAGE) {
            if (o->mine[0] && o->age == 0)
                list[n++] = (entry){o, 0};
            continue;
        }
        if (o->sent == NOW && o->message.from == w->rank)
            list[n++] = (entry){o, 0};
        if (o->received == NOW) {
            o->epoch = w->epoch;
            if (o->message.to == w->rank)
                list[n++] = (entry){o, 1};
        }
    }
    initiate_all(w, list, n);
    for (int i = 0; i < OPS; i++) {
        op *o = &w->ops[i];
        o->sent = o->sent == NOW ? DONE : o->sent;
        o->received = o->received == NOW ? DONE : o->received;
        o->age++;
    }
}

SHARED void barrier_on_base(world *w)
{
    MPI_OK(MPI_Barrier(w->base));
    w->epoch++;
}

SHARED void blocking_part(world *w)
{
    for (int k = draw_below(&w->all, 4); k > 0; k--) {
        int what = draw_below(&w->all, 24);
        if (what < 8)
            blocking_message(w);
        else if (what < 10)
            exchange(w);
        else if (what < 12)
            wildcards(w);
        else if (what < 18)
            blocking_collective(w);
        else if (what < 20)
            inspect_comm(w);
        else if (what < 21)
            make_comm(w);
        else if (what < 22)
            free_comm(w);
        else
            barrier_on_base(w);
        if (draw_odds(&w->own, 1, 4))
            compute(w);
    }
}

/* Completes some of what is under way, or all of it. */
SHARED void last_part(world *w, int all)
{
    entry list[2 * OPS];
    int n = 0, many = ops_under_way(w, -1) > OPS - 8;
    op *chosen[OPS];
    int chosen_n = 0;
    for (int i = 0; i < OPS; i++) {
        op *o = &w->ops[i];
        if (!o->used || (o->kind == MESSAGE && (o->sent != DONE || o->received != DONE)))
            continue;
        if (!draw_odds(&w->all, 1, 3) && !all && !many && o->age < OLD)
            continue;
        chosen[chosen_n++] = o;
        for (int side = 0; side < 2; side++)
            if (o->mine[side])
                list[n++] = (entry){o, side};
    }
    complete_all(w, list, n);
    for (int i = 0; i < chosen_n; i++) {
        chosen[i]->used = 0;
        if (chosen[i]->kind == MESSAGE && chosen[i]->message.send == PERSISTENT)
            w->channels[chosen[i]->channel].busy = 0;
    }
}

SHARED void play_round(world *w)
{
    for (int k = draw_below(&w->all, 5); k > 0; k--) {
        int what = draw_below(&w->all, 24);
        if (what < 14)
            draw_message(w);
        else if (what < 17)
            draw_channel(w);
        else if (what < 22)
            draw_nonblocking_collective(w);
        else
            draw_local(w, what < 23 ? CANCELLED : GENERALIZED);
    }
    first_part(w, 0);
    blocking_part(w);
    look_early(w);
    last_part(w, 0);
    if (draw_odds(&w->own, 1, 3))
        compute(w);
}

/* The number of checkpoints that the harness has seen committed. */
SHARED long commits(void)
{
    const char *path = getenv("STASIS_TEST_COMMITS");
    struct stat file;
    return path && stat(path, &file) == 0 ? (long)file.st_size : 0;
}

/* Outside of any MPI call, until a checkpoint is committed or no more are taken. */
SHARED void stay_outside(void)
{
    struct timespec pause = {0, 1000000};
    long before = commits();
    while (!cut_open() && commits() == before)
        nanosleep(&pause, NULL);
}

/* A late rank's operation, with its input in the receive buffer: the library may have moved it when the rank comes. */
SHARED void late_in_place(world *w, int what, int base)
{
    enum { N = 512 / sizeof(int) / RANKS };
    int buffer[RANKS * N], counts[RANKS], places[RANKS], r = w->rank, p = w->size;
    int gathers = what >= 3, sum = 1000 * (p * (p - 1) / 2);
    for (int i = 0; i < p * N; i++)
        buffer[i] = gathers && i / N != r ? -1 : base + 1000 * r + i;
    for (int k = 0; k < p; k++) {
        counts[k] = N - k;
        places[k] = k * N;
    }
    switch (what) {
    case 0:
        MPI_OK(MPI_Allreduce(MPI_IN_PLACE, buffer, N, MPI_INT, MPI_SUM, w->base));
        for (int i = 0; i < N; i++)
            CHECK_EQ(buffer[i], p * (base + i) + sum);
        break;
    case 1:
        MPI_OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, buffer, N, MPI_INT, MPI_SUM, w->base));
        for (int i = 0; i < N; i++)
            CHECK_EQ(buffer[i], p * (base + r * N + i) + sum);
        break;
    case 2:
        MPI_OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, N, MPI_INT, w->base));
        for (int i = 0; i < p * N; i++)
            CHECK_EQ(buffer[i], base + 1000 * (i / N) + r * N + i % N);
        break;
    case 3:
        MPI_OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, N, MPI_INT, w->base));
        for (int i = 0; i < p * N; i++)
            CHECK_EQ(buffer[i], base + 1000 * (i / N) + i);
        break;
    default:
        MPI_OK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, counts, places, MPI_INT, w->base));
        for (int i = 0; i < p * N; i++)
            if (i % N < counts[i / N])
                CHECK_EQ(buffer[i], base + 1000 * (i / N) + i);
        break;
    }
}

/* One rank is late for an operation that no other can leave without it. */
SHARED void late_round(world *w)
{
    enum { N = 40, ELSEWHERE = 6, IN_PLACE = 5 };
    int in[RANKS * N], out[RANKS * N];
    int what = draw_below(&w->late, ELSEWHERE + IN_PLACE), late = draw_below(&w->late, w->size), p = w->size;
    int base = draw_below(&w->late, 1000000);
    for (int i = 0; i < p * N; i++) {
        in[i] = base + 1000 * w->rank + i;
        out[i] = -1;
    }
    /* The others have nothing to do but this operation. */
    barrier_on_base(w);
    if (w->rank == late)
        stay_outside();
    switch (what) {
    case 0:
        MPI_OK(MPI_Barrier(w->base));
        break;
    case 1:
        MPI_OK(MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, w->base));
        for (int i = 0; i < N; i++)
            CHECK_EQ(out[i], p * (base + i) + 1000 * (p * (p - 1) / 2));
        break;
    case 2:
        MPI_OK(MPI_Alltoall(in, N, MPI_INT, out, N, MPI_INT, w->base));
        for (int i = 0; i < p * N; i++)
            CHECK_EQ(out[i], base + 1000 * (i / N) + w->rank * N + i % N);
        break;
    case 3:
        MPI_OK(MPI_Allgather(in, N, MPI_INT, out, N, MPI_INT, w->base));
        for (int i = 0; i < p * N; i++)
            CHECK_EQ(out[i], base + 1000 * (i / N) + i % N);
        break;
    case 4:
        MPI_OK(MPI_Bcast(in, N, MPI_INT, late, w->base));
        for (int i = 0; i < N; i++)
            CHECK_EQ(in[i], base + 1000 * late + i);
        break;
    case 5:
        MPI_OK(MPI_Scatter(in, N, MPI_INT, out, N, MPI_INT, late, w->base));
        for (int i = 0; i < N; i++)
            CHECK_EQ(out[i], base + 1000 * late + w->rank * N + i);
        break;
    default:
        late_in_place(w, what - ELSEWHERE, base);
        break;
    }
    note(w, (uint32_t)base);
}

static void attach_buffer(void) { MPI_OK(MPI_Buffer_attach(malloc(ATTACHED), ATTACHED)); }

static void detach_buffer(void)
{
    void *buffer;
    int bytes;
    MPI_OK(MPI_Buffer_detach(&buffer, &bytes));
    CHECK_EQ(bytes, ATTACHED);
    free(buffer);
}

/* Nothing is under way afterwards. */
SHARED void settle(world *w)
{
    first_part(w, 1);
    last_part(w, 1);
    CHECK_EQ(ops_under_way(w, -1), 0);
    barrier_on_base(w);
    while (w->forgotten_count > 0)
        free(w->forgotten[--w->forgotten_count]);
    w->forgotten_drawn = 0;
    if (w->alone) {
        detach_buffer();
        attach_buffer();
    }
}

typedef struct {
    uint64_t seed;
    int rounds, alone;
    MPI_Comm base;
    uint64_t digest, operations;
} schedule;

static void *play(void *argument)
{
    schedule *s = argument;
    world *w = calloc(1, sizeof *w);
    w->all.state = mix(s->seed);
    w->late.state = mix(s->seed + LATE);
    w->base = s->base;
    w->alone = s->alone;
    MPI_OK(MPI_Comm_rank(w->base, &w->rank));
    MPI_OK(MPI_Comm_size(w->base, &w->size));
    w->own.state = mix(s->seed * RANKS + (uint64_t)w->rank + 1);
    w->slots[0] = (slot){.used = 1, .comm = w->base, .n = w->size};
    for (int i = 0; i < w->size; i++)
        w->slots[0].member[i] = i;
    for (int part = 1; part <= PARTS; part++) {
        for (int i = s->rounds * (part - 1) / PARTS; i < s->rounds * part / PARTS; i++) {
            play_round(w);
            /* With several threads no operation can be retracted, and a checkpoint would wait for the late rank. */
            if (w->alone && draw_odds(&w->late, 1, LATE))
                late_round(w);
        }
        settle(w);
        if (w->alone && w->rank == 0) {
            printf("%d of %d: %" PRIu64 " operations, %016" PRIx64 "\n", part, PARTS, w->operations, w->digest);
            fflush(stdout);
        }
    }
    for (int i = 0; i < CHANNELS; i++) {
        channel *c = &w->channels[i];
        if (c->used && c->message.from == w->rank)
            MPI_OK(MPI_Request_free(&c->send));
        if (c->used && c->message.to == w->rank)
            MPI_OK(MPI_Request_free(&c->receive));
    }
    for (int i = 1; i < SLOTS; i++)
        if (w->slots[i].used && is_member(&w->slots[i], w->rank))
            MPI_OK(MPI_Comm_free(&w->slots[i].comm));
    s->digest = w->digest;
    s->operations = w->operations;
    free(w);
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned long long seed = 1;
    int rounds = 300, threads = 0;
    if (argc > 1 && sscanf(argv[1], "%llu-%d-%d", &seed, &rounds, &threads) != 3) {
        fprintf(stderr, "usage: %s SEED-ROUNDS-THREADS\n", argv[0]);
        return 2;
    }
    test_start_threads(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    CHECK(test_size <= RANKS && threads <= RANKS, "at most %d ranks and threads", RANKS);
    MPI_OK(MPI_Comm_create_keyval(copy_attribute, MPI_COMM_NULL_DELETE_FN, &attribute_key, NULL));
    attach_buffer();
    int schedules = threads ? threads : 1;
    schedule all[RANKS];
    pthread_t thread[RANKS];
    for (int i = 0; i < schedules; i++) {
        all[i] = (schedule){.seed = seed * RANKS + (unsigned)i, .rounds = rounds / schedules, .alone = !threads};
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &all[i].base));
    }
    cut_announce();
    if (!threads)
        play(&all[0]);
    for (int i = 0; i < threads; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, play, &all[i]), 0);
    for (int i = 0; i < threads; i++)
        CHECK_EQ(pthread_join(thread[i], NULL), 0);
    uint64_t sums[2] = {0, 0};
    for (int i = 0; i < schedules; i++) {
        sums[0] += all[i].digest;
        sums[1] += all[i].operations;
        MPI_OK(MPI_Comm_free(&all[i].base));
    }
    MPI_OK(MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD));
    MPI_OK(MPI_Comm_free_keyval(&attribute_key));
    detach_buffer();
    if (test_rank == 0) {
        printf("OK random: %" PRIu64 " operations, %016" PRIx64 "\n", sums[1], sums[0]);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}

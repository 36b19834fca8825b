/* What all ranks know of one schedule: its communicators with their members, and the operations
 * that are under way. Every rank holds the same, but for handles, buffers and requests. */
#ifndef TORTURE_WORLD_H
#define TORTURE_WORLD_H

#include "typed.h"

#include <sched.h>

enum { RANKS = 8, SLOTS = 9, OPS = 40, CHANNELS = 6, FORGETTABLE = 100 };

/* Tags: of operations under way (any of a few), of blocking ones, and of special ones. */
enum { FEW_TAGS = 4, BLOCKING_TAG = 100, READY_TAG = 200, WILD_TAG = 300, NEVER_TAG = 400, UNIQUE_TAG = 1000 };

/* A communicator. Of an inter-communicator, `member` holds both groups, one after the other. */
typedef struct {
    int used;
    MPI_Comm comm;       /* MPI_COMM_NULL where this rank is no member */
    int n;               /* members of the first group */
    int m;               /* of the second; 0: an intra-communicator */
    int member[2 * RANKS]; /* their ranks in the schedule's base */
    int topology;        /* it has one */
    int graph;           /* that is in `edge`, by ranks here */
    unsigned char edge[RANKS][RANKS];
    int attribute;       /* value of the attribute, 0: none */
    int name;
} slot;

/* Of a side of a message: to be initiated in a later round, in this one, or initiated. */
enum when { LATER, NOW, DONE };

enum op_kind { MESSAGE, COLLECTIVE, CANCELLED, GENERALIZED };
enum send_mode { STANDARD, SYNCHRONOUS, BUFFERED, READY, FORGOTTEN, PERSISTENT, SEND_MODES };
enum receive_mode { EXACT, ANY_TAG, ANY_SOURCE, MATCHED, RECEIVE_MODES };

/* A message, as drawn: known to all. */
typedef struct {
    uint32_t id;
    int slot, from, to; /* ranks in the base */
    int tag, send, receive;
    shape give, take;
} message;

/* A collective operation with its buffers, see collective.h. */
typedef struct collective collective;

/* An operation under way. */
typedef struct {
    int used, kind, age;
    message message;
    int sent, received;      /* messages: which sides are initiated */
    int epoch;               /* when the receive was initiated */
    int channel;             /* persistent: which */
    typed out, in;
    collective *collective;
    MPI_Request request[2];  /* mine: of sending, or of anything but a message; of receiving */
    int mine[2];             /* they are to be completed */
} op;

/* Persistent requests for messages from one rank to another. */
typedef struct {
    int used, busy;
    message message;
    typed out, in;
    MPI_Request send, receive;
} channel;

typedef struct {
    draw all, own;          /* what all ranks draw alike; what each draws for itself */
    draw late;              /* what all draw alike for late ranks, so that the rest is as without them */
    MPI_Comm base;
    int rank, size, alone;  /* alone: no other thread uses MPI */
    uint32_t ids;
    int epoch;              /* barriers on the base so far */
    slot slots[SLOTS];
    op ops[OPS];
    channel channels[CHANNELS];
    int forgotten_drawn;    /* by all ranks; their buffers here: */
    unsigned char *forgotten[FORGETTABLE];
    int forgotten_count;
    uint64_t digest;
    uint64_t operations;
} world;

/* Operation `id` was found right here, whenever that was. */
SHARED void note(world *w, uint32_t id)
{
    w->digest += mix(id);
    w->operations++;
}

SHARED uint32_t next_id(world *w) { return ++w->ids; }

/* This rank's or another's place among the members; -1 if it is none. */
SHARED int place_of(const slot *s, int rank)
{
    for (int i = 0; i < s->n + s->m; i++)
        if (s->member[i] == rank)
            return i;
    return -1;
}

/* Its rank in its own group. */
SHARED int rank_of(const slot *s, int rank)
{
    int place = place_of(s, rank);
    return place < s->n ? place : place - s->n;
}

SHARED int is_member(const slot *s, int rank) { return place_of(s, rank) >= 0; }

/* A slot in use that suits: any, or an intra-communicator only. */
SHARED int draw_slot(world *w, int intra)
{
    for (;;) {
        int i = draw_below(&w->all, SLOTS);
        if (w->slots[i].used && !(intra && w->slots[i].m))
            return i;
    }
}

SHARED op *free_op(world *w)
{
    for (int i = 0; i < OPS; i++)
        if (!w->ops[i].used) {
            op *o = &w->ops[i];
            memset(o, 0, sizeof *o);
            o->request[0] = o->request[1] = MPI_REQUEST_NULL;
            o->used = 1;
            return o;
        }
    return NULL;
}

SHARED int ops_under_way(const world *w, int slot)
{
    int n = 0;
    for (int i = 0; i < OPS; i++)
        n += w->ops[i].used && (slot < 0 || w->ops[i].message.slot == slot);
    return n;
}

/* Is something of this kind under way on a communicator of one member? MPICH 4.0 has one queue for its
 * messages and its collectives, and gives what belongs to the one to the other. */
SHARED int alone_with(const world *w, int slot, int kind)
{
    if (w->slots[slot].n + w->slots[slot].m > 1)
        return 0;
    for (int i = 0; i < OPS; i++)
        if (w->ops[i].used && w->ops[i].kind == kind && w->ops[i].message.slot == slot)
            return 1;
    return 0;
}

/* Something other than MPI, for each rank its own amount. */
SHARED void compute(world *w)
{
    struct timespec pause = {0, 1000 * draw_from(&w->own, 1, 400)};
    if (draw_odds(&w->own, 1, 40)) {
        nanosleep(&pause, NULL);
        return;
    }
    volatile uint64_t x = 1;
    int rounds = draw_odds(&w->own, 1, 30) ? 100000 : draw_below(&w->own, 3000);
    for (int i = 0; i < rounds; i++)
        x = x * 3 + (uint64_t)i;
}

#endif

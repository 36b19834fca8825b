/* Collective operations of every kind, blocking or not: what each member gives and what it must have
 * got afterwards, to the byte. */
#ifndef TORTURE_COLLECTIVE_H
#define TORTURE_COLLECTIVE_H

#include "reduction.h"

enum collective_kind {
    BARRIER, BCAST, GATHER, SCATTER, ALLGATHER, ALLTOALL, ALLTOALLW,
    REDUCE, ALLREDUCE, REDUCE_SCATTER, SCAN, EXSCAN,
    NEIGHBOR_ALLGATHER, NEIGHBOR_ALLTOALL, NEIGHBOR_ALLTOALLW, COLLECTIVES
};

/* Blocks of elements, one for each peer. */
typedef struct {
    int counts[2 * RANKS], places[2 * RANKS]; /* in elements, or (w) in bytes */
    MPI_Aint far[2 * RANKS];                  /* the same, as neighbours want them */
    MPI_Datatype types[2 * RANKS];
    unsigned char *memory;
    size_t bytes;
    int n;
} blocks;

struct collective {
    uint32_t id;
    int kind, blocking, varied, in_place, slot, root; /* root: its place among the members */
    int element, number, reduction, n;
    shape shape; /* of a broadcast */
    /* Of this rank: */
    typed whole;
    blocks out, in;
    unsigned char *want;
    size_t checked; /* bytes of `in` that are defined afterwards */
    uint64_t out_sum;
    MPI_Datatype type;
    MPI_Op op;
};

SHARED uint32_t block_seed(uint32_t id, int from, int to)
{
    return (uint32_t)mix(((uint64_t)id << 16) + (uint64_t)(from * 64 + to));
}

/* Elements that go from one place to another. */
SHARED int block_count(const collective *c, int from, int to)
{
    if (!c->varied)
        return c->n;
    if (c->in_place && from > to) /* exchanged in place: the same both ways */
        return block_count(c, to, from);
    return (int)(mix(((uint64_t)c->id << 20) + (uint64_t)(from * 64 + to)) % (uint64_t)(c->n + 1));
}

SHARED void add_block(const collective *c, blocks *b, int count)
{
    int size = element_number(c->element).size, w = c->kind == ALLTOALLW || c->kind == NEIGHBOR_ALLTOALLW;
    int gap = c->varied || w ? 1 : 0; /* only these can leave one */
    size_t at = b->bytes + (size_t)(gap * size);
    b->counts[b->n] = count;
    b->places[b->n] = (int)(w ? at : at / (size_t)size);
    b->far[b->n] = (MPI_Aint)at;
    b->types[b->n++] = element_number(c->element).type;
    b->bytes = at + (size_t)(count * size);
}

SHARED size_t block_at(const collective *c, const blocks *b, int i)
{
    int w = c->kind == ALLTOALLW || c->kind == NEIGHBOR_ALLTOALLW;
    return (size_t)b->places[i] * (w ? 1u : (size_t)element_number(c->element).size);
}

SHARED void write_block(const collective *c, const blocks *b, int i, unsigned char *memory, uint32_t seed)
{
    test_fill(memory + block_at(c, b, i), (size_t)(b->counts[i] * element_number(c->element).size), seed);
}

SHARED uint64_t sum_of(const unsigned char *bytes, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

/* May a member have nothing to give and nothing to get? */
SHARED int may_be_idle(const slot *s, const collective *c)
{
    if (c->kind < NEIGHBOR_ALLGATHER)
        return c->in_place && (c->kind == ALLTOALLW || (c->kind == ALLTOALL && c->varied));
    for (int a = 0; a < s->n; a++) {
        int neighbours = 0;
        for (int b = 0; b < s->n; b++)
            neighbours += s->edge[a][b] + s->edge[b][a];
        if (!neighbours)
            return 1;
    }
    return 0;
}

/* Whether it can be called there: what MPI does not have, and what the libraries do not do right
 * natively, is left out. */
SHARED int suits(const slot *s, collective *c, int blocking)
{
    int reduces = c->kind >= REDUCE && c->kind <= EXSCAN;
    if (s->n + s->m == 1) {
        c->varied = 0; /* MPICH 4.0 gathers to displacement 0, whatever it is told */
        if (c->kind == ALLTOALLW) /* nor does Open MPI 4.1 see the displacement */
            return 0;
    }
    if (c->kind == ALLTOALLW && s->topology && !blocking) /* Open MPI 4.1 reads a type for each neighbour */
        return 0;
    if (!blocking && may_be_idle(s, c)) /* and numbers the next ones in another way on a rank that has nothing to do */
        return 0;
    if (c->kind == REDUCE) /* MPICH 4.0 reads from MPI_IN_PLACE, if the root is not 0 and there is much */
        c->in_place = 0;
    if (s->m)
        /* Non-blocking between groups, Open MPI 4.1 hangs in large reductions, and MPICH 4.0 does not
         * deliver broadcasts. */
        return c->kind < NEIGHBOR_ALLGATHER && c->kind != SCAN && c->kind != EXSCAN &&
               (blocking || (!reduces && c->kind != BCAST));
    /* MPICH 4.0 loses blocks in MPI_Neighbor_alltoallw. */
    return c->kind < NEIGHBOR_ALLGATHER || (s->graph && c->kind != NEIGHBOR_ALLTOALLW);
}

/* Drawn by all ranks; false if it does not suit the communicator. */
SHARED int draw_collective(world *w, collective *c, int blocking)
{
    memset(c, 0, sizeof *c);
    c->slot = draw_slot(w, 0);
    const slot *s = &w->slots[c->slot];
    c->kind = draw_below(&w->all, COLLECTIVES);
    c->varied = draw_odds(&w->all, 1, 2);
    c->in_place = draw_odds(&w->all, 1, 3) && !s->m;
    c->root = draw_below(&w->all, s->n + s->m);
    c->element = draw_below(&w->all, ELEMENTS);
    c->number = draw_below(&w->all, NUMBERS);
    c->reduction = draw_reduction(&w->all, c->number);
    c->n = draw_length(&w->all, element_number(c->element).size, 100000);
    if (c->kind >= REDUCE && c->kind <= EXSCAN)
        c->n = draw_length(&w->all, (int)number_size(c->number), 40000);
    c->shape = (shape){c->element, c->n, PLAIN};
    if (c->kind == BARRIER || c->kind == BCAST || c->kind >= NEIGHBOR_ALLGATHER)
        c->in_place = 0;
    c->blocking = blocking;
    c->id = next_id(w);
    return suits(s, c, blocking) && !alone_with(w, c->slot, MESSAGE);
}

/* The places of the members from whom this rank gets something, in a collective over all. */
typedef struct {
    int me, mine, mine_end, peers, peers_end;
} sides;

SHARED sides sides_of(const world *w, const slot *s)
{
    sides x = {.me = place_of(s, w->rank), .mine_end = s->n, .peers_end = s->n};
    if (s->m) {
        int second = x.me >= s->n, all = s->n + s->m;
        x.mine = second ? s->n : 0;
        x.mine_end = second ? all : s->n;
        x.peers = second ? 0 : s->n;
        x.peers_end = second ? s->n : all;
    }
    return x;
}

/* Fills the buffers with what this rank gives, and `want` with what it must have got. */
SHARED void prepare_blocks(const slot *s, collective *c, sides x)
{
    int me = x.me, kind = c->kind, root_here = c->root >= x.mine && c->root < x.mine_end;
    int is_root = me == c->root, from_root = !s->m || !root_here;
    int neighbors = kind >= NEIGHBOR_ALLGATHER;
    int to[2 * RANKS] = {0}, from[2 * RANKS], to_n = 0, from_n = 0;
    for (int p = x.peers; p < x.peers_end && kind != BARRIER; p++) {
        int sends = !neighbors || s->edge[me][p], gets = !neighbors || s->edge[p][me];
        if (kind == GATHER ? (p == c->root && from_root) : kind == SCATTER ? is_root : sends)
            to[to_n++] = p;
        if (kind == SCATTER ? (p == c->root && from_root) : kind == GATHER ? is_root : gets)
            from[from_n++] = p;
    }
    int same = kind == GATHER || kind == ALLGATHER || kind == NEIGHBOR_ALLGATHER; /* to everybody */
    if (kind == ALLGATHER || kind == NEIGHBOR_ALLGATHER)
        to_n = 1;
    for (int i = 0; i < to_n; i++)
        add_block(c, &c->out, block_count(c, same ? 0 : kind == SCATTER ? 0 : me, same ? me : to[i]));
    for (int i = 0; i < from_n; i++)
        add_block(c, &c->in, block_count(c, same || kind == SCATTER ? 0 : from[i], same ? from[i] : me));
    c->out.memory = gaps(c->out.bytes);
    c->in.memory = gaps(c->in.bytes);
    c->want = gaps(c->in.bytes);
    for (int i = 0; i < to_n; i++)
        write_block(c, &c->out, i, c->out.memory,
                    block_seed(c->id, same ? 0 : kind == SCATTER ? 0 : me, same ? me : to[i]));
    for (int i = 0; i < from_n; i++)
        write_block(c, &c->in, i, c->want,
                    block_seed(c->id, same || kind == SCATTER ? 0 : from[i], same ? from[i] : me));
    c->checked = c->in.bytes;
    if (!c->in_place)
        return;
    /* What it would have sent lies where it would be received. */
    if ((kind == GATHER && is_root) || kind == ALLGATHER)
        write_block(c, &c->in, me, c->in.memory, block_seed(c->id, 0, me));
    if (kind == ALLTOALL || kind == ALLTOALLW)
        for (int i = 0; i < from_n; i++)
            write_block(c, &c->in, i, c->in.memory, block_seed(c->id, me, from[i]));
    if (kind == SCATTER && is_root)
        memset(c->want, GAP, c->in.bytes);
}

SHARED void prepare_reduction(const slot *s, collective *c, sides x)
{
    int me = x.me, first = x.peers, last = x.peers_end, root_here = c->root >= x.mine && c->root < x.mine_end;
    int gets = c->kind != REDUCE || me == c->root, gives = c->kind != REDUCE || !s->m || !root_here;
    int total = c->n, from = 0, result = c->n;
    size_t size = number_size(c->number);
    if (c->kind == SCAN || c->kind == EXSCAN)
        last = me + (c->kind == SCAN);
    if (c->kind == REDUCE_SCATTER) {
        /* Both groups of an inter-communicator must come to the same total. */
        if (s->m)
            c->varied = 0;
        int mine = x.mine_end - x.mine, others = s->m ? x.peers_end - x.peers : 1;
        total = 0;
        for (int p = x.mine; p < x.mine_end; p++) {
            int count = s->m ? c->n % 1000 * others : c->varied ? block_count(c, 0, p) : c->n;
            if (p == me) {
                from = total;
                result = count;
            }
            c->in.counts[p - x.mine] = count;
            total += count;
        }
        c->in.n = mine;
    }
    c->type = number_type(c->number);
    c->op = reduction_op(c->reduction);
    c->out.bytes = gives ? (size_t)total * size : 0;
    c->in.bytes = gets ? (size_t)(c->in_place ? total : result) * size : 0;
    c->out.n = total;
    c->n = result;
    c->out.memory = gaps(c->out.bytes);
    c->in.memory = gaps(c->in.bytes);
    c->want = gaps(c->in.bytes);
    for (int i = 0; gives && i < total; i++)
        contribute(c->out.memory + (size_t)i * size, c->number, c->reduction, c->id, me, i);
    if (c->in_place && gets && c->in.bytes)
        memcpy(c->in.memory, c->out.memory, c->in.bytes);
    if (gets && last > first) {
        reduce_here(c->want, from, result, c->number, c->reduction, c->id, first, last);
        c->checked = (size_t)result * size;
    }
}

/* Both forms of a call; `r` is NULL for the blocking one. */
#define EITHER(name, ...) MPI_OK(r ? MPI_I##name(__VA_ARGS__, r) : MPI_N##name(__VA_ARGS__))
#define MPI_Nbarrier MPI_Barrier
#define MPI_Nbcast MPI_Bcast
#define MPI_Ngather MPI_Gather
#define MPI_Ngatherv MPI_Gatherv
#define MPI_Nscatter MPI_Scatter
#define MPI_Nscatterv MPI_Scatterv
#define MPI_Nallgather MPI_Allgather
#define MPI_Nallgatherv MPI_Allgatherv
#define MPI_Nalltoall MPI_Alltoall
#define MPI_Nalltoallv MPI_Alltoallv
#define MPI_Nalltoallw MPI_Alltoallw
#define MPI_Nreduce MPI_Reduce
#define MPI_Nallreduce MPI_Allreduce
#define MPI_Nreduce_scatter MPI_Reduce_scatter
#define MPI_Nreduce_scatter_block MPI_Reduce_scatter_block
#define MPI_Nscan MPI_Scan
#define MPI_Nexscan MPI_Exscan
#define MPI_Nneighbor_allgather MPI_Neighbor_allgather
#define MPI_Nneighbor_allgatherv MPI_Neighbor_allgatherv
#define MPI_Nneighbor_alltoall MPI_Neighbor_alltoall
#define MPI_Nneighbor_alltoallv MPI_Neighbor_alltoallv
#define MPI_Nneighbor_alltoallw MPI_Neighbor_alltoallw

SHARED void forget_op(collective *c)
{
    if (c->number == AFFINE) {
        MPI_OK(MPI_Type_free(&c->type));
        MPI_OK(MPI_Op_free(&c->op));
    }
}

/* Calls it; r: where the request goes, NULL for the blocking form. */
SHARED void call_collective(world *w, collective *c, MPI_Request *r)
{
    const slot *s = &w->slots[c->slot];
    MPI_Comm comm = s->comm;
    sides x = sides_of(w, s);
    int root = c->root - (c->root >= s->n ? s->n : 0), is_root = c->root == x.me;
    if (s->m && c->root >= x.mine && c->root < x.mine_end)
        root = is_root ? MPI_ROOT : MPI_PROC_NULL;
    element e = element_number(c->element);
    if (c->kind == BCAST) {
        int full = is_root, empty = root == MPI_PROC_NULL;
        c->whole = full ? typed_full(c->shape, c->id) : typed_empty(c->shape);
        if (empty)
            c->whole.count = 0;
        EITHER(bcast, c->whole.memory, c->whole.count, c->whole.type, root, comm);
        return;
    }
    int reduces = c->kind >= REDUCE && c->kind <= EXSCAN;
    if (reduces)
        prepare_reduction(s, c, x);
    else
        prepare_blocks(s, c, x);
    c->out_sum = sum_of(c->out.memory, c->out.bytes);
    blocks *o = &c->out, *i = &c->in;
    void *out = o->memory, *in = i->memory;
    /* Where a side has a single block, the call takes its address instead of a displacement. */
    void *one_out = o->n ? o->memory + block_at(c, o, 0) : out, *one_in = i->n ? i->memory + block_at(c, i, 0) : in;
    if (c->in_place) {
        if (c->kind == SCATTER)
            one_in = is_root ? MPI_IN_PLACE : one_in;
        else if (!((c->kind == GATHER || c->kind == REDUCE) && !is_root))
            out = one_out = MPI_IN_PLACE;
    }
    int n = c->n;
    switch (c->kind) {
    case BARRIER:
        EITHER(barrier, comm);
        break;
    case GATHER:
        if (c->varied)
            EITHER(gatherv, one_out, o->counts[0], e.type, in, i->counts, i->places, e.type, root, comm);
        else
            EITHER(gather, one_out, n, e.type, in, n, e.type, root, comm);
        break;
    case SCATTER:
        if (c->varied)
            EITHER(scatterv, out, o->counts, o->places, e.type, one_in, i->counts[0], e.type, root, comm);
        else
            EITHER(scatter, out, n, e.type, one_in, n, e.type, root, comm);
        break;
    case ALLGATHER:
        if (c->varied)
            EITHER(allgatherv, one_out, o->counts[0], e.type, in, i->counts, i->places, e.type, comm);
        else
            EITHER(allgather, one_out, n, e.type, in, n, e.type, comm);
        break;
    case ALLTOALL:
        if (c->varied)
            EITHER(alltoallv, out, o->counts, o->places, e.type, in, i->counts, i->places, e.type, comm);
        else
            EITHER(alltoall, out, n, e.type, in, n, e.type, comm);
        break;
    case ALLTOALLW:
        EITHER(alltoallw, out, o->counts, o->places, o->types, in, i->counts, i->places, i->types, comm);
        break;
    case REDUCE:
        EITHER(reduce, out, in, o->n, c->type, c->op, root, comm);
        break;
    case ALLREDUCE:
        EITHER(allreduce, out, in, o->n, c->type, c->op, comm);
        break;
    case REDUCE_SCATTER:
        if (c->varied)
            EITHER(reduce_scatter, out, in, i->counts, c->type, c->op, comm);
        else
            EITHER(reduce_scatter_block, out, in, n, c->type, c->op, comm);
        break;
    case SCAN:
        EITHER(scan, out, in, o->n, c->type, c->op, comm);
        break;
    case EXSCAN:
        EITHER(exscan, out, in, o->n, c->type, c->op, comm);
        break;
    case NEIGHBOR_ALLGATHER:
        if (c->varied)
            EITHER(neighbor_allgatherv, one_out, o->counts[0], e.type, in, i->counts, i->places, e.type, comm);
        else
            EITHER(neighbor_allgather, one_out, n, e.type, in, n, e.type, comm);
        break;
    case NEIGHBOR_ALLTOALL:
        if (c->varied)
            EITHER(neighbor_alltoallv, out, o->counts, o->places, e.type, in, i->counts, i->places, e.type, comm);
        else
            EITHER(neighbor_alltoall, out, n, e.type, in, n, e.type, comm);
        break;
    case NEIGHBOR_ALLTOALLW:
        EITHER(neighbor_alltoallw, out, o->counts, o->far, o->types, in, i->counts, i->far, i->types, comm);
        break;
    }
}

/* It is done: everything must be as it should. */
SHARED void finish_collective(world *w, collective *c)
{
    const char *const names[] = {"barrier", "broadcast", "gather", "scatter", "allgather", "alltoall", "alltoallw",
                                 "reduce", "allreduce", "reduce_scatter", "scan", "exscan",
                                 "neighbor_allgather", "neighbor_alltoall", "neighbor_alltoallw"};
    const slot *s = &w->slots[c->slot];
    int reduces = c->kind >= REDUCE && c->kind <= EXSCAN;
    char what[200];
    snprintf(what, sizeof what, "%s%s of %d + %d in slot %d, root %d, %s%s, n %d of element %d",
             c->blocking ? "" : "non-blocking ", names[c->kind], s->n, s->m, c->slot, c->root,
             c->varied ? "varied" : "equal", c->in_place ? " in place" : "", c->n, reduces ? c->number : c->element);
    if (c->kind == BCAST) {
        if (c->whole.shape.n && !c->whole.count)
            c->whole.shape.n = 0; /* took no part in it */
        typed_check(&c->whole, c->id, what, c->id);
        typed_free(&c->whole);
    } else {
        same_bytes(c->in.memory, c->want, c->checked, what, c->id);
        CHECK(sum_of(c->out.memory, c->out.bytes) == c->out_sum, "operation %u, %s: what was sent has changed", c->id, what);
        free(c->out.memory);
        free(c->in.memory);
        free(c->want);
        if (reduces)
            forget_op(c);
    }
    note(w, c->id * 2);
}

/* A blocking one, here and now. */
SHARED void blocking_collective(world *w)
{
    collective c;
    if (!draw_collective(w, &c, 1) || !is_member(&w->slots[c.slot], w->rank))
        return;
    call_collective(w, &c, NULL);
    finish_collective(w, &c);
}

/* One that may stay under way for a while; initiated later in this round. */
SHARED void draw_nonblocking_collective(world *w)
{
    collective c;
    if (!draw_collective(w, &c, 0))
        return;
    op *o = free_op(w);
    if (!o)
        return;
    o->kind = COLLECTIVE;
    o->message.id = c.id;
    o->message.slot = c.slot;
    if (!is_member(&w->slots[c.slot], w->rank))
        return;
    o->collective = malloc(sizeof c);
    *o->collective = c;
    o->mine[0] = 1;
}

#endif

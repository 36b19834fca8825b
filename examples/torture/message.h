/* Messages: drawing them, initiating and completing their sides, and those that block. */
#ifndef TORTURE_MESSAGE_H
#define TORTURE_MESSAGE_H

#include "world.h"

/* Small enough that all of a schedule fit into the attached buffer. */
enum { MOST_BUFFERED = 1500, MOST_FORGOTTEN = 3000 };

SHARED MPI_Comm comm_of(const world *w, const message *m) { return w->slots[m->slot].comm; }

/* Rank of the peer, as the communicator counts. */
SHARED int to_rank(const world *w, const message *m) { return rank_of(&w->slots[m->slot], m->to); }
SHARED int from_rank(const world *w, const message *m) { return rank_of(&w->slots[m->slot], m->from); }

SHARED void draw_shapes(world *w, message *m, int most)
{
    int e = draw_below(&w->all, ELEMENTS), size = element_number(e).size;
    int n = draw_length(&w->all, size, most);
    m->give = (shape){e, n, draw_layout(&w->all, n)};
    m->take = (shape){e, n, draw_layout(&w->all, n)};
}

/* From whom to whom. */
SHARED void draw_ends(world *w, message *m)
{
    const slot *s = &w->slots[m->slot];
    if (s->m) {
        int a = s->member[draw_below(&w->all, s->n)], b = s->member[s->n + draw_below(&w->all, s->m)];
        int back = draw_odds(&w->all, 1, 2);
        m->from = back ? b : a;
        m->to = back ? a : b;
        return;
    }
    m->from = s->member[draw_below(&w->all, s->n)];
    m->to = s->member[draw_below(&w->all, s->n)];
}

SHARED int same_way(const message *a, const message *b)
{
    return a->slot == b->slot && a->from == b->from && a->to == b->to;
}

/* Messages of one class match in the order in which they are sent and received. */
SHARED int same_class(const message *a, const message *b) { return same_way(a, b) && a->tag == b->tag; }

/* May a message go this way, or would it be taken for one that is under way? */
SHARED int way_is_free(const world *w, const message *m, int exclusive)
{
    if (alone_with(w, m->slot, COLLECTIVE))
        return 0;
    for (int i = 0; i < OPS; i++) {
        const op *o = &w->ops[i];
        if (o->used && o->kind == MESSAGE && same_way(&o->message, m) &&
            (exclusive || o->message.receive == ANY_TAG))
            return 0;
    }
    return 1;
}

/* May this side (0 sending, 1 receiving) be initiated, or has an earlier one of its class to be
 * first? */
SHARED int is_first(const world *w, const op *o, int side)
{
    for (int i = 0; i < OPS; i++) {
        const op *p = &w->ops[i];
        if (p->used && p->kind == MESSAGE && p->message.id < o->message.id &&
            same_class(&p->message, &o->message) && (side ? p->received : p->sent) == LATER)
            return 0;
    }
    return 1;
}

SHARED void nonblocking_send(world *w, op *o)
{
    const message *m = &o->message;
    typed *t = &o->out;
    MPI_Request *r = &o->request[0];
    MPI_Comm comm = comm_of(w, m);
    int to = to_rank(w, m);
    if (m->send == PERSISTENT) {
        channel *c = &w->channels[o->channel];
        typed_write(&c->message.give, c->out.memory, m->id);
        if (draw_odds(&w->own, 1, 2))
            MPI_OK(MPI_Start(&c->send));
        else
            MPI_OK(MPI_Startall(1, &c->send));
        o->mine[0] = 1;
        return;
    }
    *t = typed_full(m->give, m->id);
    switch (m->send) {
    case SYNCHRONOUS:
        MPI_OK(MPI_Issend(t->memory, t->count, t->type, to, m->tag, comm, r));
        break;
    case BUFFERED:
        MPI_OK(MPI_Ibsend(t->memory, t->count, t->type, to, m->tag, comm, r));
        break;
    case READY:
        if (o->received == DONE && o->epoch < w->epoch)
            MPI_OK(MPI_Irsend(t->memory, t->count, t->type, to, m->tag, comm, r));
        else /* nobody has said that the receive is posted */
            MPI_OK(MPI_Isend(t->memory, t->count, t->type, to, m->tag, comm, r));
        break;
    default:
        MPI_OK(MPI_Isend(t->memory, t->count, t->type, to, m->tag, comm, r));
    }
    if (m->from != m->to && draw_odds(&w->own, 1, 2))
        typed_forget_type(t);
    if (m->send == FORGOTTEN) {
        MPI_OK(MPI_Request_free(r));
        typed_forget_type(t);
        w->forgotten[w->forgotten_count++] = t->memory;
        t->memory = NULL;
    } else {
        o->mine[0] = 1;
    }
}

SHARED void nonblocking_receive(world *w, op *o)
{
    const message *m = &o->message;
    typed *t = &o->in;
    MPI_Comm comm = comm_of(w, m);
    int from = m->receive == ANY_SOURCE ? MPI_ANY_SOURCE : from_rank(w, m);
    int tag = m->receive == ANY_TAG ? MPI_ANY_TAG : m->tag;
    o->mine[1] = 1;
    if (m->send == PERSISTENT) {
        channel *c = &w->channels[o->channel];
        memset(c->in.memory, GAP, c->in.bytes);
        MPI_OK(MPI_Start(&c->receive));
        return;
    }
    *t = typed_empty(m->take);
    if (m->receive == MATCHED && o->sent == DONE) {
        /* Sent in an earlier round, so it can be waited for and taken in hand. */
        MPI_Message hand;
        MPI_Status status;
        int flag = 0;
        while (!flag) {
            MPI_OK(MPI_Improbe(from, tag, comm, &flag, &hand, &status));
            if (!flag)
                sched_yield();
        }
        compute(w);
        MPI_OK(MPI_Imrecv(t->memory, t->count, t->type, &hand, &o->request[1]));
    } else {
        MPI_OK(MPI_Irecv(t->memory, t->count, t->type, from, tag, comm, &o->request[1]));
    }
    if (draw_odds(&w->own, 1, 2))
        typed_forget_type(t);
}

SHARED void check_status(const world *w, const message *m, const MPI_Status *status)
{
    int bytes = -1;
    MPI_OK(MPI_Get_count(status, MPI_BYTE, &bytes));
    CHECK(status->MPI_SOURCE == from_rank(w, m) && status->MPI_TAG == m->tag && bytes == shape_bytes(&m->take),
          "message %u: source %d, tag %d, %d bytes instead of %d, %d, %d", m->id, status->MPI_SOURCE,
          status->MPI_TAG, bytes, from_rank(w, m), m->tag, shape_bytes(&m->take));
}

/* A side is complete: what was received must be right, what was sent must be as it was. */
SHARED void finish_side(world *w, op *o, int side, const MPI_Status *status)
{
    const message *m = &o->message;
    typed *t = side ? &o->in : &o->out;
    if (m->send == PERSISTENT)
        t = side ? &w->channels[o->channel].in : &w->channels[o->channel].out;
    if (side)
        check_status(w, m, status);
    char what[200];
    snprintf(what, sizeof what, "%s message from %d to %d in slot %d, tag %d, modes %d and %d, layouts %d and %d",
             side ? "received" : "sent", m->from, m->to, m->slot, m->tag, m->send, m->receive, m->give.layout,
             m->take.layout);
    typed_check(t, m->id, what, m->id);
    if (m->send != PERSISTENT)
        typed_free(t);
    o->mine[side] = 0;
    note(w, m->id * 2 + (uint32_t)side);
}

/* A message that may stay under way for a while. */
SHARED void draw_message(world *w)
{
    message m = {.slot = draw_slot(w, 0)};
    draw_ends(w, &m);
    m.send = draw_odds(&w->all, 1, 2) ? STANDARD : draw_below(&w->all, PERSISTENT);
    if (m.send == FORGOTTEN && m.from == m.to)
        m.send = STANDARD;
    m.receive = draw_odds(&w->all, 1, 2) ? EXACT : draw_below(&w->all, RECEIVE_MODES);
    draw_shapes(w, &m, m.send == BUFFERED ? MOST_BUFFERED : m.send == FORGOTTEN ? MOST_FORGOTTEN : 1 << 30);
    m.tag = draw_below(&w->all, FEW_TAGS);
    int sides = draw_below(&w->all, 4); /* 0: both now; 1: sending now; 2: receiving now; 3: both now */
    if (!way_is_free(w, &m, m.receive == ANY_TAG) ||
        (m.send == FORGOTTEN && w->forgotten_drawn >= FORGETTABLE))
        return;
    op *o = free_op(w);
    if (!o)
        return;
    m.id = next_id(w);
    if (m.receive == ANY_SOURCE)
        m.tag = UNIQUE_TAG + (int)(m.id % 30000);
    o->kind = MESSAGE;
    o->message = m;
    o->sent = sides != 2 && is_first(w, o, 0) ? NOW : LATER;
    o->received = sides != 1 && is_first(w, o, 1) ? NOW : LATER;
    w->forgotten_drawn += m.send == FORGOTTEN;
}

/* A persistent channel: made, used, and freed some time later. */
SHARED void draw_channel(world *w)
{
    channel *c = &w->channels[draw_below(&w->all, CHANNELS)];
    int remove = draw_odds(&w->all, 1, 8), mode = draw_below(&w->all, 3);
    if (c->used && !c->busy && remove) {
        c->used = 0;
        if (c->message.from == w->rank) {
            MPI_OK(MPI_Request_free(&c->send));
            typed_free(&c->out);
        }
        if (c->message.to == w->rank) {
            MPI_OK(MPI_Request_free(&c->receive));
            typed_free(&c->in);
        }
    } else if (c->used && !c->busy) {
        op *o = way_is_free(w, &c->message, 0) ? free_op(w) : NULL;
        if (!o)
            return;
        c->busy = 1;
        o->kind = MESSAGE;
        o->channel = (int)(c - w->channels);
        o->message = c->message;
        o->message.id = next_id(w);
        o->sent = o->received = NOW;
    } else if (!c->used) {
        message m = {.slot = draw_slot(w, 0), .send = PERSISTENT, .receive = EXACT};
        draw_ends(w, &m);
        draw_shapes(w, &m, mode == 2 ? MOST_BUFFERED : 20000);
        if (m.from == m.to || !way_is_free(w, &m, 0))
            return;
        m.id = next_id(w);
        m.tag = UNIQUE_TAG + (int)(m.id % 30000);
        c->used = 1;
        c->message = m;
        MPI_Comm comm = comm_of(w, &m);
        if (m.from == w->rank) {
            typed *t = &c->out;
            *t = typed_full(m.give, m.id);
            int (*const inits[])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
                MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init};
            MPI_OK(inits[mode](t->memory, t->count, t->type, to_rank(w, &m), m.tag, comm, &c->send));
            if (m.from != m.to && draw_odds(&w->own, 1, 2))
                typed_forget_type(t);
        }
        if (m.to == w->rank) {
            typed *t = &c->in;
            *t = typed_empty(m.take);
            MPI_OK(MPI_Recv_init(t->memory, t->count, t->type, from_rank(w, &m), m.tag, comm, &c->receive));
            if (m.from != m.to && draw_odds(&w->own, 1, 2))
                typed_forget_type(t);
        }
    }
}

/* Sends and returns when that is done. */
SHARED void blocking_send(world *w, const message *m)
{
    typed t = typed_full(m->give, m->id);
    MPI_Comm comm = comm_of(w, m);
    int to = to_rank(w, m);
    MPI_Request r;
    switch (m->send) {
    case STANDARD:
        MPI_OK(MPI_Send(t.memory, t.count, t.type, to, m->tag, comm));
        break;
    case SYNCHRONOUS:
        MPI_OK(MPI_Ssend(t.memory, t.count, t.type, to, m->tag, comm));
        break;
    case BUFFERED:
        MPI_OK(MPI_Bsend(t.memory, t.count, t.type, to, m->tag, comm));
        break;
    case READY:
        MPI_OK(MPI_Recv(NULL, 0, MPI_BYTE, to, READY_TAG, comm, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Rsend(t.memory, t.count, t.type, to, m->tag, comm));
        break;
    default:
        MPI_OK(MPI_Issend(t.memory, t.count, t.type, to, m->tag, comm, &r));
        compute(w);
        MPI_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    typed_check(&t, m->id, "sent", m->id);
    typed_free(&t);
}

SHARED void blocking_receive(world *w, const message *m, int how)
{
    typed t = typed_empty(m->take);
    MPI_Comm comm = comm_of(w, m);
    int from = from_rank(w, m), flag = 0;
    MPI_Request r;
    MPI_Status status;
    MPI_Message hand;
    if (m->send == READY) {
        MPI_OK(MPI_Irecv(t.memory, t.count, t.type, from, m->tag, comm, &r));
        MPI_OK(MPI_Send(NULL, 0, MPI_BYTE, from, READY_TAG, comm));
        MPI_OK(MPI_Wait(&r, &status));
        how = -1;
    }
    switch (how) {
    case 0:
        MPI_OK(MPI_Recv(t.memory, t.count, t.type, from, m->tag, comm, &status));
        break;
    case 1:
        MPI_OK(MPI_Probe(from, m->tag, comm, &status));
        check_status(w, m, &status);
        compute(w);
        MPI_OK(MPI_Recv(t.memory, t.count, t.type, status.MPI_SOURCE, status.MPI_TAG, comm, &status));
        break;
    case 2:
        while (!flag) {
            MPI_OK(MPI_Iprobe(from, m->tag, comm, &flag, &status));
            if (!flag)
                sched_yield();
        }
        check_status(w, m, &status);
        MPI_OK(MPI_Recv(t.memory, t.count, t.type, from, m->tag, comm, &status));
        break;
    case 3:
        MPI_OK(MPI_Mprobe(from, m->tag, comm, &hand, &status));
        check_status(w, m, &status);
        compute(w);
        MPI_OK(MPI_Mrecv(t.memory, t.count, t.type, &hand, &status));
        break;
    case 4:
        MPI_OK(MPI_Irecv(t.memory, t.count, t.type, from, m->tag, comm, &r));
        while (!flag) {
            MPI_OK(MPI_Test(&r, &flag, &status));
            if (!flag)
                sched_yield();
        }
        break;
    }
    check_status(w, m, &status);
    typed_check(&t, m->id, "received", m->id);
    typed_free(&t);
    note(w, m->id * 2 + 1);
}

/* One message whose two ranks take part here and now. */
SHARED void blocking_message(world *w)
{
    message m = {.slot = draw_slot(w, 0)};
    draw_ends(w, &m);
    m.send = draw_below(&w->all, FORGOTTEN + 1);
    draw_shapes(w, &m, m.send == BUFFERED ? MOST_BUFFERED : 1 << 30);
    m.tag = BLOCKING_TAG + draw_below(&w->all, FEW_TAGS);
    int how = draw_below(&w->all, 5);
    if (m.from == m.to || !way_is_free(w, &m, 0))
        return;
    if (m.send == READY) {
        message back = m;
        back.from = m.to;
        back.to = m.from;
        if (!way_is_free(w, &back, 0))
            m.send = STANDARD;
    }
    m.id = next_id(w);
    if (m.from == w->rank)
        blocking_send(w, &m);
    if (m.to == w->rank)
        blocking_receive(w, &m, how);
}

/* All members of an intra-communicator pass something on to one some places further. */
SHARED void exchange(world *w)
{
    message m = {.slot = draw_slot(w, 1)};
    const slot *s = &w->slots[m.slot];
    int shift = draw_below(&w->all, s->n), replace = draw_odds(&w->all, 1, 3);
    draw_shapes(w, &m, 1 << 30);
    int tag = draw_odds(&w->all, 1, 4) ? 32767 : BLOCKING_TAG + draw_below(&w->all, FEW_TAGS), free = 1;
    for (int i = 0; i < s->n; i++) {
        m.from = s->member[i];
        m.to = s->member[(i + shift) % s->n];
        free &= way_is_free(w, &m, 0);
    }
    if (!free)
        return;
    uint32_t id = next_id(w);
    int me = place_of(s, w->rank);
    if (me < 0)
        return;
    int to = (me + shift) % s->n, from = (me + s->n - shift) % s->n;
    m.from = s->member[from];
    m.tag = tag;
    MPI_Status status;
    /* What each sends follows from the id and its place. */
    uint32_t mine = (uint32_t)mix(id * 16u + (uint32_t)me), theirs = (uint32_t)mix(id * 16u + (uint32_t)from);
    typed out = typed_full(m.give, mine);
    if (replace) {
        m.take = m.give;
        MPI_OK(MPI_Sendrecv_replace(out.memory, out.count, out.type, to, tag, from, tag, s->comm, &status));
        typed_check(&out, theirs, "exchanged in place", id);
    } else {
        typed in = typed_empty(m.take);
        MPI_OK(MPI_Sendrecv(out.memory, out.count, out.type, to, tag, in.memory, in.count, in.type, from, tag,
                            s->comm, &status));
        typed_check(&out, mine, "sent", id);
        typed_check(&in, theirs, "exchanged", id);
        typed_free(&in);
    }
    check_status(w, &m, &status);
    typed_free(&out);
    note(w, id * 2 + 1);
}

/* Every other member sends to one, who takes what comes. */
SHARED void wildcards(world *w)
{
    message m = {.slot = draw_slot(w, 0)};
    const slot *s = &w->slots[m.slot];
    draw_ends(w, &m);
    draw_shapes(w, &m, 20000);
    int probe = draw_below(&w->all, 3), many = draw_from(&w->all, 1, 3), members = s->n + s->m, me = place_of(s, w->rank);
    int free = 1, senders[2 * RANKS] = {0}, count = 0, target = m.to;
    int lo = s->m && place_of(s, target) < s->n ? s->n : 0, hi = s->m && !lo ? s->n : members;
    for (int i = lo; i < hi; i++) {
        m.from = s->member[i];
        if (m.from != target)
            count += senders[i] = many;
        free &= way_is_free(w, &m, 1);
    }
    if (!free)
        return;
    uint32_t id = next_id(w);
    w->ids += 2 * RANKS * 4;
    if (me >= 0 && senders[me])
        for (int k = 0; k < many; k++) {
            m.id = id + (uint32_t)(me * 4 + k);
            m.tag = WILD_TAG + k;
            m.send = STANDARD;
            blocking_send(w, &m);
        }
    while (w->rank == target && count-- > 0) {
        MPI_Status status;
        MPI_Message hand;
        typed t = typed_empty(m.take);
        if (probe == 1) {
            MPI_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, s->comm, &status));
            MPI_OK(MPI_Recv(t.memory, t.count, t.type, status.MPI_SOURCE, status.MPI_TAG, s->comm, &status));
        } else if (probe == 2) {
            MPI_OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, s->comm, &hand, &status));
            MPI_OK(MPI_Mrecv(t.memory, t.count, t.type, &hand, &status));
        } else {
            MPI_OK(MPI_Recv(t.memory, t.count, t.type, MPI_ANY_SOURCE, MPI_ANY_TAG, s->comm, &status));
        }
        int from = lo + status.MPI_SOURCE, k = status.MPI_TAG - WILD_TAG;
        CHECK(from >= lo && from < hi && senders[from] > 0, "message from %d under id %u", status.MPI_SOURCE, id);
        /* From one sender they come in order. */
        CHECK_EQ(k, many - senders[from]);
        senders[from]--;
        uint32_t one = id + (uint32_t)(from * 4 + k);
        typed_check(&t, one, "received by a wildcard", one);
        typed_free(&t);
        note(w, one * 2 + 1);
    }
    /* Nobody's next message may be taken for one of these. */
    if (me >= 0)
        MPI_OK(MPI_Barrier(s->comm));
}

#endif

/* Communicators: made by every constructor, looked at, freed. */
#ifndef TORTURE_COMMS_H
#define TORTURE_COMMS_H

#include "message.h"

static int attribute_key = MPI_KEYVAL_INVALID;

/* MPI_Comm_copy_attr_function: a copy is worth one more. */
SHARED int copy_attribute(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    *(void **)out = (void *)((intptr_t)in + 1);
    *flag = 1;
    return MPI_SUCCESS;
}

enum constructor { DUP, IDUP, SPLIT, CREATE, CREATE_GROUP, CART, GRAPH, INTER, MERGE, CONSTRUCTORS };

SHARED slot *free_slot(world *w)
{
    for (int i = 0; i < SLOTS; i++)
        if (!w->slots[i].used) {
            memset(&w->slots[i], 0, sizeof w->slots[i]);
            w->slots[i].comm = MPI_COMM_NULL;
            return &w->slots[i];
        }
    return NULL;
}

/* Members of a part, in an order of their own; at least one. Returns how many; `place` says where in
 * the parent they stand. */
SHARED int draw_part(world *w, const slot *parent, int *place)
{
    int n = 0;
    for (int i = 0; i < parent->n; i++)
        if (draw_odds(&w->all, 2, 3))
            place[n++] = i;
    if (n == 0)
        place[n++] = 0;
    for (int i = n - 1; i > 0; i--) {
        int j = draw_below(&w->all, i + 1), other = place[j];
        place[j] = place[i];
        place[i] = other;
    }
    return n;
}

SHARED void make_split(world *w, const slot *parent, slot *first, int me)
{
    int color[RANKS], key[RANKS], mine;
    first->used = 1;
    slot *second = free_slot(w);
    if (second)
        second->used = 1;
    for (int i = 0; i < parent->n; i++) {
        color[i] = i > 0 && draw_odds(&w->all, 1, 2);
        key[i] = draw_below(&w->all, 3);
    }
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < parent->n; i++) {
            slot *s = color[i] ? second : first;
            if (key[i] == k && s)
                s->member[s->n++] = parent->member[i];
        }
    if (second) {
        second->used = second->n > 0;
        second->attribute = 1;
    }
    if (me < 0)
        return;
    mine = !color[me] ? 7 : second ? 9 : MPI_UNDEFINED;
    MPI_Comm made;
    MPI_OK(MPI_Comm_split(parent->comm, mine, key[me], &made));
    if (mine == 7)
        first->comm = made;
    if (mine == 9)
        second->comm = made;
    if (mine == 9)
        MPI_OK(MPI_Comm_set_attr(made, attribute_key, (void *)1));
}

SHARED void make_part(world *w, const slot *parent, slot *s, int me, int by_group)
{
    int place[RANKS], tag = draw_below(&w->all, 100);
    MPI_Group all, part;
    s->used = 1;
    s->n = draw_part(w, parent, place);
    for (int i = 0; i < s->n; i++)
        s->member[i] = parent->member[place[i]];
    if (me < 0 || (by_group && !is_member(s, w->rank)))
        return;
    MPI_OK(MPI_Comm_group(parent->comm, &all));
    MPI_OK(MPI_Group_incl(all, s->n, place, &part));
    if (by_group)
        MPI_OK(MPI_Comm_create_group(parent->comm, part, tag, &s->comm));
    else
        MPI_OK(MPI_Comm_create(parent->comm, part, &s->comm));
    MPI_OK(MPI_Group_free(&all));
    MPI_OK(MPI_Group_free(&part));
}

SHARED void make_graph(world *w, const slot *parent, slot *s, int me)
{
    int in[RANKS], out[RANKS], in_n = 0, out_n = 0;
    s->used = s->topology = s->graph = 1;
    s->n = parent->n;
    memcpy(s->member, parent->member, sizeof s->member);
    for (int a = 0; a < s->n; a++)
        for (int b = 0; b < s->n; b++)
            s->edge[a][b] = (unsigned char)draw_odds(&w->all, 2, 3);
    if (me < 0)
        return;
    for (int p = 0; p < s->n; p++) {
        if (s->edge[p][me])
            in[in_n++] = p;
        if (s->edge[me][p])
            out[out_n++] = p;
    }
    MPI_OK(MPI_Dist_graph_create_adjacent(parent->comm, in_n, in, MPI_UNWEIGHTED, out_n, out, MPI_UNWEIGHTED,
                                          MPI_INFO_NULL, 0, &s->comm));
}

SHARED void make_inter(world *w, const slot *parent, slot *s, int me)
{
    int side[RANKS], place[2] = {-1, -1}, tag = draw_below(&w->all, 100);
    for (int i = 0; i < parent->n; i++)
        side[i] = draw_odds(&w->all, 1, 2);
    side[0] = 0;
    side[parent->n - 1] = 1;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < parent->n; i++)
            if (side[i] == k) {
                s->member[s->n + s->m] = parent->member[i];
                *(k ? &s->m : &s->n) += 1;
                if (place[k] < 0)
                    place[k] = i;
            }
    message leaders = {.slot = (int)(parent - w->slots), .from = parent->member[place[0]], .to = parent->member[place[1]]};
    message back = {.slot = leaders.slot, .from = leaders.to, .to = leaders.from};
    if (!way_is_free(w, &leaders, 0) || !way_is_free(w, &back, 0)) {
        s->n = s->m = 0; /* the leaders' own messages could be mistaken */
        return;
    }
    s->used = 1;
    if (me < 0)
        return;
    MPI_Comm local;
    MPI_OK(MPI_Comm_split(parent->comm, side[me], 0, &local));
    MPI_OK(MPI_Intercomm_create(local, 0, parent->comm, place[!side[me]], 5000 + tag, &s->comm));
    MPI_OK(MPI_Comm_free(&local));
}

/* One more communicator, or two. */
SHARED void make_comm(world *w)
{
    int kind = draw_below(&w->all, CONSTRUCTORS), from = draw_slot(w, 0), bit = draw_odds(&w->all, 1, 2);
    const slot *parent = &w->slots[from];
    slot *s = free_slot(w);
    int me = place_of(parent, w->rank);
    if (!s || (parent->m ? kind != DUP && kind != MERGE : kind == MERGE))
        return;
    if (kind == CREATE_GROUP && ops_under_way(w, from))
        return; /* Open MPI 4.1 makes it with messages that a receive of ours could take */
    switch (kind) {
    case DUP:
    case IDUP:
        *s = *parent;
        s->name = 0;
        s->comm = MPI_COMM_NULL;
        s->attribute += parent->attribute > 0;
        if (me >= 0 && kind == DUP && bit)
            MPI_OK(MPI_Comm_dup_with_info(parent->comm, MPI_INFO_NULL, &s->comm));
        else if (me >= 0 && kind == DUP)
            MPI_OK(MPI_Comm_dup(parent->comm, &s->comm));
        else if (me >= 0) {
            MPI_Request r;
            MPI_OK(MPI_Comm_idup(parent->comm, &s->comm, &r));
            compute(w);
            MPI_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        }
        break;
    case SPLIT:
        make_split(w, parent, s, me);
        break;
    case CREATE:
    case CREATE_GROUP:
        make_part(w, parent, s, me, kind == CREATE_GROUP);
        break;
    case CART: {
        int dims[2] = {0, 0}, periods[2] = {bit, !bit};
        s->used = s->topology = 1;
        s->n = parent->n;
        memcpy(s->member, parent->member, sizeof s->member);
        if (me < 0)
            break;
        MPI_OK(MPI_Dims_create(s->n, 2, dims));
        MPI_OK(MPI_Cart_create(parent->comm, 2, dims, periods, 0, &s->comm));
        break;
    }
    case GRAPH:
        make_graph(w, parent, s, me);
        break;
    case INTER:
        if (parent->n > 1)
            make_inter(w, parent, s, me);
        break;
    case MERGE:
        s->used = 1;
        s->n = parent->n + parent->m;
        for (int i = 0; i < s->n; i++) /* bit: the second group comes first */
            s->member[i] = parent->member[(i + (bit ? parent->n : 0)) % s->n];
        if (me >= 0)
            MPI_OK(MPI_Intercomm_merge(parent->comm, (me < parent->n) == bit, &s->comm));
        break;
    }
    /* Some libraries let other constructors than these copy attributes. */
    if (s->used && kind != DUP && kind != IDUP) {
        s->attribute = 1;
        if (is_member(s, w->rank))
            MPI_OK(MPI_Comm_set_attr(s->comm, attribute_key, (void *)1));
    }
}

/* Frees one that nothing is under way on. */
SHARED void free_comm(world *w)
{
    int i = draw_slot(w, 0);
    slot *s = &w->slots[i];
    if (i == 0 || ops_under_way(w, i))
        return;
    for (int c = 0; c < CHANNELS; c++)
        if (w->channels[c].used && w->channels[c].message.slot == i)
            return;
    if (is_member(s, w->rank))
        MPI_OK(MPI_Comm_free(&s->comm));
    s->used = 0;
}

SHARED void check_group(const world *w, const slot *s, MPI_Group group, int first, int n)
{
    MPI_Group base;
    int size, ranks[RANKS], in_base[RANKS];
    MPI_OK(MPI_Group_size(group, &size));
    CHECK_EQ(size, n);
    for (int i = 0; i < n; i++)
        ranks[i] = i;
    MPI_OK(MPI_Comm_group(w->base, &base));
    MPI_OK(MPI_Group_translate_ranks(group, n, ranks, base, in_base));
    for (int i = 0; i < n; i++)
        CHECK_EQ(in_base[i], s->member[first + i]);
    MPI_OK(MPI_Group_free(&base));
    MPI_OK(MPI_Group_free(&group));
}

/* Looks at one, and leaves a mark on it. */
SHARED void inspect_comm(world *w)
{
    int i = draw_slot(w, 0), mark = draw_odds(&w->all, 1, 3), value = draw_from(&w->all, 1, 1000);
    slot *s = &w->slots[i];
    if (is_member(s, w->rank)) {
        int me = place_of(s, w->rank), second = me >= s->n, rank, size, found, length;
        void *attribute;
        char name[MPI_MAX_OBJECT_NAME], wanted[32];
        MPI_Group group;
        MPI_OK(MPI_Comm_rank(s->comm, &rank));
        MPI_OK(MPI_Comm_size(s->comm, &size));
        CHECK_EQ(rank, me - (second ? s->n : 0));
        CHECK_EQ(size, second ? s->m : s->n);
        MPI_OK(MPI_Comm_group(s->comm, &group));
        check_group(w, s, group, second ? s->n : 0, size);
        if (s->m) {
            MPI_OK(MPI_Comm_remote_group(s->comm, &group));
            check_group(w, s, group, second ? 0 : s->n, second ? s->n : s->m);
        }
        MPI_OK(MPI_Comm_get_attr(s->comm, attribute_key, &attribute, &found));
        CHECK_EQ(found ? (intptr_t)attribute : 0, s->attribute);
        if (s->name) {
            MPI_OK(MPI_Comm_get_name(s->comm, name, &length));
            snprintf(wanted, sizeof wanted, "name %d", s->name);
            CHECK(strcmp(name, wanted) == 0, "a communicator is called '%s' instead of '%s'", name, wanted);
        }
        if (mark) {
            snprintf(wanted, sizeof wanted, "name %d", value);
            MPI_OK(MPI_Comm_set_name(s->comm, wanted));
            MPI_OK(MPI_Comm_set_attr(s->comm, attribute_key, (void *)(intptr_t)value));
        }
    }
    if (mark)
        s->name = s->attribute = value;
}

#endif

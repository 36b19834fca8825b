/* Buffers of n elements laid out by an MPI datatype, with every byte known: those of the elements
 * follow from a seed, those between them are GAP before and after. */
#ifndef TORTURE_TYPED_H
#define TORTURE_TYPED_H

#include "draw.h"

enum { GAP = 0xA5, LISTED = 600 };

enum layout { PLAIN, CONTIGUOUS, VECTOR, RESIZED, PAIRS, STRUCT, SUBARRAY, INDEXED, BACKWARD, LAYOUTS };

typedef struct {
    int size;
    MPI_Datatype type;
} element;

SHARED element element_number(int i)
{
    const element all[] = {{1, MPI_BYTE},      {2, MPI_SHORT},      {4, MPI_INT},
                           {8, MPI_DOUBLE},    {4, MPI_FLOAT},      {8, MPI_LONG_LONG},
                           {1, MPI_CHAR},      {8, MPI_2INT},       {16, MPI_C_DOUBLE_COMPLEX}};
    return all[i];
}
enum { ELEMENTS = 9 };

/* What is drawn of a buffer. */
typedef struct {
    int element, n, layout;
} shape;

typedef struct {
    shape shape;
    MPI_Datatype type;
    int count, made; /* made: the type is ours to free */
    size_t bytes;
    unsigned char *memory;
} typed;

SHARED int shape_bytes(const shape *s) { return s->n * element_number(s->element).size; }

/* How many elements a message has: none, few, and with luck more than any eager limit. */
SHARED int draw_length(draw *d, int size, int most)
{
    int bytes, kind = draw_below(d, 40);
    if (kind < 2)
        return 0;
    if (kind < 20)
        return draw_from(d, 1, 16);
    if (kind < 32)
        bytes = 2048;
    else if (kind < 37)
        bytes = 20000;
    else
        bytes = kind < 39 ? 100000 : 400000;
    if (bytes > most)
        bytes = most;
    return 1 + draw_below(d, bytes / size);
}

/* A layout that suits n elements. */
SHARED int draw_layout(draw *d, int n)
{
    int layout = draw_odds(d, 1, 2) ? PLAIN : draw_below(d, LAYOUTS);
    if (n == 0 || (layout >= INDEXED && n > LISTED) || (layout == PAIRS && n % 2))
        return PLAIN;
    return layout;
}

/* The offset of element i. */
SHARED size_t typed_at(const shape *s, int i)
{
    size_t e = (size_t)element_number(s->element).size;
    int at = i;
    switch (s->layout) {
    case VECTOR: /* blocks of b, 3 apart; the last may be short: then blocks of 1 */
        at = s->n % 4 ? i * 3 : i / 4 * 7 + i % 4;
        break;
    case RESIZED:
        at = 2 * i;
        break;
    case PAIRS:
        at = i / 2 * 5 + i % 2 * 2;
        break;
    case STRUCT:
        at = i < s->n / 2 ? i + 1 : i + 4;
        break;
    case SUBARRAY: /* a column block of n x 3 */
        at = i * 3 + 1;
        break;
    case INDEXED: /* blocks of 1, 2, 3 ... elements, one apart */
        for (int b = 1, left = i; left >= b; left -= b, b++)
            at++;
        break;
    case BACKWARD:
        at = 2 * (s->n - 1 - i);
        break;
    }
    return (size_t)at * e;
}

/* Room for any layout, in elements. */
SHARED size_t typed_room(const shape *s) { return (size_t)(3 * s->n + 8); }

SHARED void typed_type(typed *t)
{
    const shape *s = &t->shape;
    element e = element_number(s->element);
    int n = s->n, lengths[LISTED + 1], places[LISTED + 1], blocks = 0;
    MPI_Datatype inner;
    t->made = s->layout != PLAIN;
    t->count = 1;
    switch (s->layout) {
    case PLAIN:
        t->type = e.type;
        t->count = n;
        return;
    case CONTIGUOUS:
        MPI_OK(MPI_Type_contiguous(n, e.type, &t->type));
        break;
    case VECTOR:
        if (n % 4)
            MPI_OK(MPI_Type_vector(n, 1, 3, e.type, &t->type));
        else
            MPI_OK(MPI_Type_vector(n / 4, 4, 7, e.type, &t->type));
        break;
    case RESIZED:
        MPI_OK(MPI_Type_create_resized(e.type, 0, 2 * e.size, &t->type));
        t->count = n;
        break;
    case PAIRS:
        MPI_OK(MPI_Type_create_hvector(2, 1, 2 * e.size, e.type, &inner));
        MPI_OK(MPI_Type_create_resized(inner, 0, 5 * e.size, &t->type));
        MPI_OK(MPI_Type_free(&inner));
        t->count = n / 2;
        break;
    case STRUCT: {
        int both[2] = {n / 2, n - n / 2};
        MPI_Aint at[2] = {e.size, (MPI_Aint)(n / 2 + 4) * e.size};
        MPI_Datatype types[2] = {e.type, e.type};
        MPI_OK(MPI_Type_create_struct(2, both, at, types, &t->type));
        break;
    }
    case SUBARRAY: {
        int sizes[2] = {n, 3}, part[2] = {n, 1}, start[2] = {0, 1};
        MPI_OK(MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, e.type, &t->type));
        break;
    }
    case INDEXED:
        for (int done = 0; done < n; blocks++) {
            lengths[blocks] = blocks + 1 < n - done ? blocks + 1 : n - done;
            places[blocks] = (int)(typed_at(s, done) / (size_t)e.size);
            done += lengths[blocks];
        }
        MPI_OK(MPI_Type_indexed(blocks, lengths, places, e.type, &t->type));
        break;
    case BACKWARD:
        for (int i = 0; i < n; i++)
            places[i] = 2 * (n - 1 - i);
        MPI_OK(MPI_Type_create_indexed_block(n, 1, places, e.type, &t->type));
        break;
    }
    MPI_OK(MPI_Type_commit(&t->type));
}

/* Elements that follow from `seed`, written as they lie in memory. */
SHARED void typed_write(const shape *s, unsigned char *memory, uint32_t seed)
{
    size_t e = (size_t)element_number(s->element).size;
    for (int i = 0; i < s->n; i++) {
        unsigned char *at = memory + typed_at(s, i);
        for (size_t b = 0; b < e; b++)
            at[b] = test_byte(seed, (size_t)i * e + b);
    }
}

SHARED unsigned char *gaps(size_t bytes)
{
    unsigned char *memory = malloc(bytes + 1);
    CHECK(memory, "out of memory");
    memset(memory, GAP, bytes + 1);
    return memory;
}

SHARED typed typed_empty(shape s)
{
    typed t = {.shape = s};
    t.bytes = typed_room(&s) * (size_t)element_number(s.element).size;
    t.memory = gaps(t.bytes);
    typed_type(&t);
    return t;
}

SHARED typed typed_full(shape s, uint32_t seed)
{
    typed t = typed_empty(s);
    typed_write(&s, t.memory, seed);
    return t;
}

SHARED void typed_forget_type(typed *t)
{
    if (t->made)
        MPI_OK(MPI_Type_free(&t->type));
    t->made = 0;
}

SHARED void typed_free(typed *t)
{
    typed_forget_type(t);
    free(t->memory);
    t->memory = NULL;
}

/* Every byte of `got` must be that of `want`. */
SHARED void same_bytes(const unsigned char *got, const unsigned char *want, size_t bytes, const char *what,
                       uint32_t id)
{
    if (memcmp(got, want, bytes) == 0)
        return;
    size_t i = 0;
    while (got[i] == want[i])
        i++;
    test_fail(__FILE__, __LINE__, "operation %u, %s: byte %zu of %zu is %02x, should be %02x", id, what, i,
              bytes, got[i], want[i]);
}

/* The buffer must hold the elements that follow from `seed`, and gaps as they were. */
SHARED void typed_check(const typed *t, uint32_t seed, const char *what, uint32_t id)
{
    unsigned char *want = gaps(t->bytes);
    typed_write(&t->shape, want, seed);
    same_bytes(t->memory, want, t->bytes, what, id);
    free(want);
}

#endif

/* Reductions that every rank can do alone, because everybody's contribution follows from the id. */
#ifndef TORTURE_REDUCTION_H
#define TORTURE_REDUCTION_H

#include "world.h"

enum number { U8, U32, I64, F64, PAIR, AFFINE, NUMBERS };
enum reduction { SUM, PROD, MIN, MAX, BAND, BOR, BXOR, LAND, LOR, LXOR, MINLOC, MAXLOC, COMPOSE };

/* x -> a x + b; composing is associative and not commutative. */
typedef struct {
    uint32_t a, b;
} affine;

typedef struct {
    int value, index;
} pair;

SHARED size_t number_size(int number)
{
    const size_t sizes[] = {1, 4, 8, 8, sizeof(pair), sizeof(affine)};
    return sizes[number];
}

SHARED int draw_reduction(draw *d, int number)
{
    switch (number) {
    case F64:
        return draw_below(d, MAX + 1);
    case PAIR:
        return draw_from(d, MINLOC, MAXLOC);
    case AFFINE:
        return COMPOSE;
    default:
        return draw_below(d, LXOR + 1);
    }
}

/* MPI_User_function of COMPOSE: in (op) inout -> inout. */
SHARED void compose(void *in, void *inout, int *n, MPI_Datatype *type)
{
    const affine *left = in;
    affine *right = inout;
    (void)type;
    for (int i = 0; i < *n; i++) {
        right[i].b = left[i].a * right[i].b + left[i].b;
        right[i].a = left[i].a * right[i].a;
    }
}

/* Element i of what the member at `place` contributes, small enough for the operation. */
SHARED void contribute(void *to, int number, int reduction, uint32_t id, int place, int i)
{
    uint64_t v = mix(mix(id * 32u + (uint32_t)place) + (uint64_t)i);
    if (reduction == SUM || reduction == MIN || reduction == MAX)
        v &= number == U8 ? 0xf : 0xffff;
    else if (reduction == PROD)
        v &= 3;
    else if (reduction >= LAND && reduction <= LXOR)
        v &= 1;
    switch (number) {
    case U8:
        *(uint8_t *)to = (uint8_t)v;
        break;
    case U32:
        *(uint32_t *)to = (uint32_t)v;
        break;
    case I64:
        *(int64_t *)to = (int64_t)v;
        break;
    case F64:
        *(double *)to = (double)v;
        break;
    case PAIR:
        *(pair *)to = (pair){(int)(v & 7), place};
        break;
    case AFFINE:
        *(affine *)to = (affine){(uint32_t)v | 1, (uint32_t)(v >> 32)};
        break;
    }
}

#define FOLD(kind, bits)                                                  \
    do {                                                                  \
        kind *l = left;                                                   \
        kind r = *(const kind *)right;                                    \
        switch (reduction) {                                              \
        case SUM: *l += r; break;                                         \
        case PROD: *l *= r; break;                                        \
        case MIN: *l = r < *l ? r : *l; break;                            \
        case MAX: *l = r > *l ? r : *l; break;                            \
        bits                                                              \
        }                                                                 \
    } while (0)
#define BITS                                                              \
        case BAND: *l &= r; break;                                        \
        case BOR: *l |= r; break;                                         \
        case BXOR: *l ^= r; break;                                        \
        case LAND: *l = *l && r; break;                                   \
        case LOR: *l = *l || r; break;                                    \
        case LXOR: *l = !*l != !r; break;

/* *left = *left (op) *right */
SHARED void fold(void *left, const void *right, int number, int reduction)
{
    switch (number) {
    case U8:
        FOLD(uint8_t, BITS);
        break;
    case U32:
        FOLD(uint32_t, BITS);
        break;
    case I64:
        FOLD(int64_t, BITS);
        break;
    case F64:
        FOLD(double, );
        break;
    case PAIR: {
        pair *l = left, r = *(const pair *)right;
        int better = reduction == MINLOC ? r.value < l->value : r.value > l->value;
        if (better || (r.value == l->value && r.index < l->index))
            *l = r;
        break;
    }
    case AFFINE: {
        affine both = *(const affine *)right;
        int one = 1;
        compose(left, &both, &one, NULL);
        *(affine *)left = both;
        break;
    }
    }
}

/* Elements from .. from + n - 1 of the reduction over the places first .. last - 1. */
SHARED void reduce_here(unsigned char *to, int from, int n, int number, int reduction, uint32_t id, int first,
                        int last)
{
    size_t size = number_size(number);
    uint64_t one[2];
    for (int i = 0; i < n; i++) {
        contribute(to + (size_t)i * size, number, reduction, id, first, from + i);
        for (int place = first + 1; place < last; place++) {
            contribute(one, number, reduction, id, place, from + i);
            fold(to + (size_t)i * size, one, number, reduction);
        }
    }
}

SHARED MPI_Datatype number_type(int number)
{
    const MPI_Datatype types[] = {MPI_UNSIGNED_CHAR, MPI_UINT32_T, MPI_INT64_T, MPI_DOUBLE, MPI_2INT};
    MPI_Datatype type;
    if (number < AFFINE)
        return types[number];
    MPI_OK(MPI_Type_contiguous(2, MPI_UINT32_T, &type));
    MPI_OK(MPI_Type_commit(&type));
    return type;
}

SHARED MPI_Op reduction_op(int reduction)
{
    const MPI_Op ops[] = {MPI_SUM,  MPI_PROD, MPI_MIN,  MPI_MAX,    MPI_BAND,  MPI_BOR,
                          MPI_BXOR, MPI_LAND, MPI_LOR,  MPI_LXOR,   MPI_MINLOC, MPI_MAXLOC};
    MPI_Op op;
    if (reduction < COMPOSE)
        return ops[reduction];
    MPI_OK(MPI_Op_create(compose, 0, &op));
    return op;
}

#endif

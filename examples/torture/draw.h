/* Random numbers. What is drawn from a `draw` that all ranks have in the same state is known to all
 * of them without a message. */
#ifndef TORTURE_DRAW_H
#define TORTURE_DRAW_H

#include "../stasis_test.h"

typedef struct {
    uint64_t state;
} draw;

/* SplitMix64's mixer: also makes one seed of several numbers. */
SHARED uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

SHARED uint64_t draw_word(draw *d)
{
    d->state += 0x9e3779b97f4a7c15u;
    return mix(d->state);
}

/* 0 .. n-1 */
SHARED int draw_below(draw *d, int n) { return (int)(draw_word(d) % (uint64_t)n); }

/* low .. high */
SHARED int draw_from(draw *d, int low, int high) { return low + draw_below(d, high - low + 1); }

/* True in `a` of `b` cases. */
SHARED int draw_odds(draw *d, int a, int b) { return draw_below(d, b) < a; }

#endif

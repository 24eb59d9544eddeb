/*
 * Loop and fork: a parallel loop over the numbers of an array, or a tree of forks and joins, again and again; the time is that of the
 * whole. The items are the numbers, or the leaves. As in rust/pools/src/loops/parallel.rs and fork.rs.
 */
#ifndef PEER_WHOLE_H
#define PEER_WHOLE_H

#include "issuer.h"

#define FORK_DEPTH 12
#define FORK_SHARE 100

static inline uint64_t element(uint64_t value)
{
    uint64_t x = value + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline uint64_t leaf(uint64_t steps)
{
    spin(steps);
    return 1;
}

static inline void whole(struct issuer *issuer)
{
    int measuring = 0, forks = strcmp(options.lap, "fork") == 0;
    uint64_t steps = options.spin / FORK_SHARE ? options.spin / FORK_SHARE : 1, expected = 0, *values = NULL;
    size_t count = strcmp(options.lap, "loop-1e5") == 0 ? 100000 : 10000000;
    if (forks) {
        count = (size_t)1 << FORK_DEPTH;
        expected = count;
    } else {
        values = (uint64_t *)malloc(count * sizeof *values);
        if (!values)
            out_of_memory();
        for (size_t index = 0; index < count; index++) {
            values[index] = index;
            expected += element(index);
        }
    }
    while (go_on(issuer, &measuring)) {
        uint64_t start = now_ns();
        uint64_t got = forks ? ops->leaves(FORK_DEPTH, steps) : ops->sum(values, count);
        keep(&issuer->latency, now_ns() - start);
        issuer->queued += count;
        issuer->items += count;
        if (got == expected)
            issuer->ran += count;
    }
    free(values);
}

#endif

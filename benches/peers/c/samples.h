/* Nanoseconds, as many as come, and their percentiles. */
#ifndef PEER_SAMPLES_H
#define PEER_SAMPLES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct samples {
    uint64_t *values;
    size_t length, room;
};

static inline void out_of_memory(void)
{
    fputs("out of memory\n", stderr);
    exit(3);
}

static inline void keep(struct samples *samples, uint64_t value)
{
    if (samples->length == samples->room) {
        samples->room = samples->room ? samples->room * 2 : 4096;
        samples->values = (uint64_t *)realloc(samples->values, samples->room * sizeof *samples->values);
        if (!samples->values)
            out_of_memory();
    }
    samples->values[samples->length++] = value;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static inline void percentiles(const char *name, struct samples *samples)
{
    if (!samples->length)
        return;
    qsort(samples->values, samples->length, sizeof *samples->values, by_value);
    for (size_t index = 0; index < 3; index++) {
        static const size_t percent[] = {50, 95, 99};
        printf(",\"%s_p%zu_ns\":%llu", name, percent[index],
               (unsigned long long)samples->values[(samples->length - 1) * percent[index] / 100]);
    }
}

static inline void append(struct samples *to, const struct samples *from)
{
    for (size_t index = 0; index < from->length; index++)
        keep(to, from->values[index]);
}

#endif

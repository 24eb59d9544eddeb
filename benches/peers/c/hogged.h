/*
 * Hogged: how soon an empty item starts while items queued before it compute for long. In batches: first the hogs are queued, then
 * a sample every period, whether or not the samples before it have started. A batch ends with its hogs and samples.
 */
#ifndef PEER_HOGGED_H
#define PEER_HOGGED_H

#include "issuer.h"

static inline void hog(struct item *item)
{
    for (uint64_t count = 0; count < options.spins; count++)
        spin(options.spin);
    item->runs++;
    item->ended_ns = now_ns();
    __atomic_fetch_add(&item->issuer->finished, 1, __ATOMIC_RELEASE);
}

static inline void start_sample(struct item *item)
{
    item->ended_ns = now_ns();
    item->hogs_at_start = __atomic_load_n(&item->issuer->finished, __ATOMIC_ACQUIRE);
    item->runs++;
}

static inline void tell_left(struct item *item)
{
    __atomic_fetch_sub(&item->issuer->left, 1, __ATOMIC_ACQ_REL);
}

static inline void queue_counted(struct issuer *issuer, struct item *item)
{
    __atomic_fetch_add(&issuer->left, 1, __ATOMIC_RELAXED);
    issuer->queued++;
    item->queued_ns = now_ns();
    ops->submit(item);
}

static inline void hogged_batch(struct issuer *issuer, struct item *hogs, struct item *samples)
{
    uint64_t begin = now_ns(), end = begin, taken;
    __atomic_store_n(&issuer->finished, 0, __ATOMIC_RELAXED);
    for (uint64_t number = 0; number < options.hogs; number++)
        queue_counted(issuer, &hogs[number]);
    /* The first sample follows the hogs at once. */
    for (taken = 0; taken < options.batch; taken++) {
        if (taken > 0)
            sleep_us(options.period_us);
        samples[taken].hogs_before = __atomic_load_n(&issuer->finished, __ATOMIC_ACQUIRE);
        if (samples[taken].hogs_before >= options.hogs)
            break;
        queue_counted(issuer, &samples[taken]);
    }
    while (__atomic_load_n(&issuer->left, __ATOMIC_ACQUIRE) > 0)
        if (ops->wait)
            ops->wait();
        else
            sleep_us(1000);
    issuer->items += taken;
    for (uint64_t number = 0; number < taken; number++) {
        keep(&issuer->latency, samples[number].ended_ns - samples[number].queued_ns);
        issuer->after_hogs += samples[number].hogs_at_start > samples[number].hogs_before;
    }
    for (uint64_t number = 0; number < options.hogs; number++)
        if (hogs[number].ended_ns > end)
            end = hogs[number].ended_ns;
    keep(&issuer->batches, end - begin);
}

static inline void hogged(struct issuer *issuer)
{
    struct item *hogs = new_items(issuer, (int)options.hogs, hog, tell_left);
    struct item *samples = new_items(issuer, (int)options.batch, start_sample, tell_left);
    for (uint64_t batch = 0; batch * options.batch < options.samples; batch++)
        hogged_batch(issuer, hogs, samples);
    for (uint64_t number = 0; number < options.hogs; number++)
        issuer->ran += hogs[number].runs;
    for (uint64_t number = 0; number < options.batch; number++)
        issuer->ran += samples[number].runs;
}

#endif

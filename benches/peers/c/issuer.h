/*
 * What the loops and the pools share: a pool's operations, an issuer and its items, clocks, CPUs, and how an issuer is told.
 */
#ifndef PEER_ISSUER_H
#define PEER_ISSUER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "samples.h"

struct item;

/* What a peer is made of. */
struct ops {
    const char *peer;
    /* Loop and mode, in turns, then NULL. */
    const char *const *rows;
    /* Called by the main thread, which has all CPUs. */
    void (*start)(int workers);
    /* Called by each issuer's thread before its first item and after its last; may be NULL. */
    void (*issuer_begin)(void);
    void (*issuer_end)(void);
    /* Queues an item: item_run() is to be called with it on a worker. */
    void (*submit)(struct item *item);
    /* Queues several by one call; NULL if the pool has none. */
    void (*submit_all)(struct item *const *items, size_t count);
    /* For handles: queue, and wait until it has run. NULL if there are none. */
    void (*spawn)(struct item *item);
    void (*join)(struct item *item);
    /* For pools that tell the issuer in its own thread: runs what has come, and waits for it if need be. Then the pool calls
     * item_told() there. Otherwise NULL. */
    void (*wait)(void);
    /* For pools with parallel loops and recursion, otherwise NULL: the sum of element() over the values; the number of leaf()s of a tree. */
    uint64_t (*sum)(const uint64_t *values, size_t count);
    uint64_t (*leaves)(unsigned depth, uint64_t steps);
};

struct options {
    const char *peer, *lap, *mode;
    int issuers, workers;
    uint64_t warmup_ms, time_ms, items, spin, samples, period_us, hogs, spins, batch;
};

struct issuer {
    sem_t told;
    /* round trip, flood, hogged: what is left to run; window: the items that have run, a bit each; hogged: hogs that have ended */
    int64_t left;
    uint64_t finished;
    int number;
    uint64_t items, queued, ran, after_hogs;
    struct samples enqueue, latency, sleeper, learned, batches;
    pthread_t thread;
    /* Issuers have nothing in common. */
    char apart[128];
};

/* An item; a pool may put its own at its front or back, see libuv. */
struct item {
    void *pool_data[24];
    void (*work)(struct item *item);
    void (*tell)(struct item *item);
    struct issuer *issuer;
    uint64_t queued_ns, ended_ns, runs;
    /* hogged: how many hogs had ended when it was queued, when it started */
    uint64_t hogs_before, hogs_at_start;
    int index, sleeps;
    char apart[64];
};

static const struct ops *ops;
static struct options options;
static cpu_set_t all_cpus;
static int phase; /* 0 warming up, 1 measuring, 2 stopped */
static pthread_barrier_t together, apart;

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline void sleep_us(uint64_t us)
{
    struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
    nanosleep(&time, NULL);
}

static inline void fail(const char *why)
{
    fprintf(stderr, "%s: %s\n", options.peer ? options.peer : "peer", why);
    exit(3);
}

/* A thread that a pinned issuer started has inherited its mask. */
static inline void unpin(void)
{
    sched_setaffinity(0, sizeof all_cpus, &all_cpus);
}

static inline void pin_issuer(int number)
{
    int wanted = number % CPU_COUNT(&all_cpus), seen = 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all_cpus) && seen++ == wanted)
            CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        fail("an issuer could not be pinned");
}

/* Each step needs the one before it, so that the time is the same in every language. */
static inline void spin(uint64_t steps)
{
    uint64_t x = 0x9e3779b97f4a7c15u;
    __asm__ volatile("" : "+r"(x));
    for (uint64_t step = 0; step < steps; step++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    __asm__ volatile("" : : "r"(x));
}

/* Called by the pool, on a worker. */
static inline void item_run(struct item *item)
{
    item->work(item);
    if (!ops->wait && item->tell)
        item->tell(item);
}

/* Called by the pool in the issuer's thread, if it has ops.wait. */
static inline void item_told(struct item *item)
{
    if (item->tell)
        item->tell(item);
}

static inline void wake_issuer(struct issuer *issuer)
{
    if (!ops->wait)
        sem_post(&issuer->told);
}

/* Until woken; with ops.wait: until something has come. */
static inline void wait_told(struct issuer *issuer)
{
    if (ops->wait)
        ops->wait();
    else
        while (sem_wait(&issuer->told) != 0)
            ;
}

static inline int go_on(struct issuer *issuer, int *measuring)
{
    int now = __atomic_load_n(&phase, __ATOMIC_RELAXED);
    if (now == 1 && !*measuring) {
        *measuring = 1;
        issuer->items = issuer->enqueue.length = issuer->latency.length = issuer->sleeper.length = issuer->learned.length = 0;
    }
    return now != 2;
}

static inline struct item *new_items(struct issuer *issuer, int count, void (*work)(struct item *), void (*tell)(struct item *))
{
    struct item *items = (struct item *)aligned_alloc(64, (sizeof(struct item) * (size_t)count + 63) / 64 * 64);
    if (!items)
        out_of_memory();
    memset(items, 0, sizeof *items * (size_t)count);
    for (int index = 0; index < count; index++) {
        items[index].work = work;
        items[index].tell = tell;
        items[index].issuer = issuer;
        items[index].index = index;
    }
    return items;
}

static inline void count_run(struct item *item)
{
    item->runs++;
}

#endif

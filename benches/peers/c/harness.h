/*
 * The loops for pools in C and C++: what benches/peers/README.md says, once for all programs here. A program fills in a
 * struct ops for each of its peers and calls peer_main().
 */
#ifndef PEER_HARNESS_H
#define PEER_HARNESS_H

#include "hogged.h"
#include "issuer.h"
#include "whole.h"

#define WINDOW 64
#define ROUND_TRIP_TIMED_EVERY 7
#define FLOOD_TIMED_EVERY 61

/* Round trip. */

static inline void tell_done(struct item *item)
{
    __atomic_store_n(&item->issuer->left, 0, __ATOMIC_RELEASE);
    wake_issuer(item->issuer);
}

static inline void round_trip(struct issuer *issuer)
{
    int measuring = 0, joins = ops->join && strcmp(options.mode, "help") == 0;
    struct item *item = new_items(issuer, 1, count_run, joins ? NULL : tell_done);
    while (go_on(issuer, &measuring)) {
        int timed = issuer->queued % ROUND_TRIP_TIMED_EVERY == 0;
        uint64_t start = timed ? now_ns() : 0, queued = 0;
        issuer->left = 1;
        (joins ? ops->spawn : ops->submit)(item);
        if (timed)
            queued = now_ns();
        if (joins)
            ops->join(item);
        else
            do
                wait_told(issuer);
            while (__atomic_load_n(&issuer->left, __ATOMIC_ACQUIRE) != 0);
        if (timed) {
            keep(&issuer->latency, now_ns() - start);
            keep(&issuer->enqueue, queued - start);
        }
        issuer->queued++;
        issuer->items++;
    }
    issuer->ran = item->runs;
}

/* Window and block. */

static inline void compute(struct item *item)
{
    if (item->sleeps)
        sleep_us(1000);
    spin(options.spin);
    item->runs++;
    item->ended_ns = now_ns();
}

static inline void tell_finished(struct item *item)
{
    if (__atomic_fetch_or(&item->issuer->finished, UINT64_C(1) << item->index, __ATOMIC_ACQ_REL) == 0)
        wake_issuer(item->issuer);
}

static inline uint64_t take_finished(struct issuer *issuer)
{
    uint64_t bits;
    while ((bits = __atomic_exchange_n(&issuer->finished, 0, __ATOMIC_ACQ_REL)) == 0)
        wait_told(issuer);
    return bits;
}

static inline void window(struct issuer *issuer)
{
    int measuring = 0, blocks = strcmp(options.lap, "block") == 0;
    uint64_t free_bits = UINT64_MAX, in_flight = 0;
    struct item *items = new_items(issuer, WINDOW, compute, tell_finished);
    while (go_on(issuer, &measuring)) {
        for (; free_bits; free_bits &= free_bits - 1) {
            struct item *item = &items[__builtin_ctzll(free_bits)];
            in_flight |= UINT64_C(1) << item->index;
            item->sleeps = blocks && issuer->queued % 4 == 0;
            issuer->queued++;
            item->queued_ns = now_ns();
            ops->submit(item);
        }
        free_bits = take_finished(issuer);
        in_flight &= ~free_bits;
        for (uint64_t bits = free_bits; bits; bits &= bits - 1) {
            struct item *item = &items[__builtin_ctzll(bits)];
            keep(item->sleeps ? &issuer->sleeper : &issuer->latency, item->ended_ns - item->queued_ns);
            if (!item->sleeps)
                keep(&issuer->learned, now_ns() - item->queued_ns);
            issuer->items++;
        }
    }
    while (in_flight)
        in_flight &= ~take_finished(issuer);
    for (int index = 0; index < WINDOW; index++)
        issuer->ran += items[index].runs;
}

/* Flood, in bursts too: rounds between two barriers; the main thread takes the time. */

static inline void no_work(struct item *item)
{
    (void)item;
}

static inline void tell_less(struct item *item)
{
    if (__atomic_fetch_sub(&item->issuer->left, 1, __ATOMIC_ACQ_REL) == 1)
        wake_issuer(item->issuer);
}

/* Pools that keep their state in the item need one for each. */
static int flood_item_each;

static inline int is_flood(void)
{
    return strcmp(options.lap, "flood") == 0 || strncmp(options.lap, "batch-", 6) == 0;
}

static inline void flood(struct issuer *issuer)
{
    int64_t share = (int64_t)(options.items / (uint64_t)options.issuers);
    if (share < 1)
        share = 1;
    /* `batch-100`: bursts of 100. */
    int64_t burst = strncmp(options.lap, "batch-", 6) == 0 ? atoi(options.lap + 6) : 1;
    struct item *items = new_items(issuer, flood_item_each ? (int)share : 1, no_work, tell_less);
    struct item **bursting = (struct item **)calloc((size_t)burst, sizeof *bursting);
    if (!bursting)
        out_of_memory();
    for (int round = 0;; round++) {
        int64_t count = round == 0 ? (share + 9) / 10 : share;
        pthread_barrier_wait(&together);
        if (__atomic_load_n(&phase, __ATOMIC_RELAXED) == 2)
            break;
        __atomic_store_n(&issuer->left, count, __ATOMIC_RELEASE);
        for (int64_t first = 0, number = 0; first < count; first += burst, number++) {
            int64_t length = count - first < burst ? count - first : burst;
            for (int64_t index = 0; index < length; index++)
                bursting[index] = &items[flood_item_each ? first + index : 0];
            uint64_t start = number % FLOOD_TIMED_EVERY == 0 ? now_ns() : 0;
            if (burst > 1 && ops->submit_all)
                ops->submit_all(bursting, (size_t)length);
            else
                for (int64_t index = 0; index < length; index++)
                    ops->submit(bursting[index]);
            if (start)
                keep(&issuer->enqueue, (now_ns() - start) / (uint64_t)length);
        }
        do
            wait_told(issuer);
        while (__atomic_load_n(&issuer->left, __ATOMIC_ACQUIRE) > 0);
        pthread_barrier_wait(&apart);
        if (round == 0)
            issuer->enqueue.length = 0;
        else
            issuer->items += (uint64_t)count;
        issuer->queued += (uint64_t)count;
        issuer->ran += (uint64_t)(count - __atomic_load_n(&issuer->left, __ATOMIC_ACQUIRE));
    }
    free(bursting);
}

/* Idle: one item at a time. */

static inline void stamp(struct item *item)
{
    item->ended_ns = now_ns();
    __atomic_fetch_add(&item->runs, 1, __ATOMIC_RELEASE);
}

static inline void one_at_a_time(struct issuer *issuer)
{
    struct item *item = new_items(issuer, 1, stamp, tell_done);
    for (uint64_t sample = 0; sample < options.samples; sample++) {
        sleep_us(options.period_us);
        uint64_t start = now_ns();
        issuer->left = 1;
        ops->submit(item);
        issuer->queued++;
        if (ops->wait)
            while (__atomic_load_n(&issuer->left, __ATOMIC_ACQUIRE) != 0)
                ops->wait();
        while (__atomic_load_n(&item->runs, __ATOMIC_ACQUIRE) != issuer->queued)
            sleep_us(options.period_us / 4);
        issuer->items++;
        keep(&issuer->latency, item->ended_ns - start);
    }
    issuer->ran = item->runs;
}


static inline void *issuer_thread(void *argument)
{
    struct issuer *issuer = (struct issuer *)argument;
    pin_issuer(issuer->number);
    if (ops->issuer_begin)
        ops->issuer_begin();
    if (is_flood()) {
        flood(issuer);
    } else {
        pthread_barrier_wait(&together);
        if (strcmp(options.lap, "roundtrip") == 0)
            round_trip(issuer);
        else if (strcmp(options.lap, "idle") == 0)
            one_at_a_time(issuer);
        else if (strcmp(options.lap, "hogged") == 0)
            hogged(issuer);
        else if (strcmp(options.lap, "fork") == 0 || strncmp(options.lap, "loop-", 5) == 0)
            whole(issuer);
        else
            window(issuer);
    }
    if (ops->issuer_end)
        ops->issuer_end();
    return NULL;
}

/* The report. */

static inline long peak_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib;
}

static inline uint64_t spin_takes(void)
{
    uint64_t least = UINT64_MAX;
    for (int attempt = 0; attempt < 200; attempt++) {
        uint64_t start = now_ns();
        spin(options.spin);
        uint64_t took = now_ns() - start;
        if (took < least)
            least = took;
    }
    return least;
}

static inline int listed(const struct ops *peer, const char *lap, const char *mode)
{
    for (const char *const *row = peer->rows; *row; row += 2)
        if (strcmp(row[0], lap) == 0 && strcmp(row[1], mode) == 0)
            return 1;
    return 0;
}

static inline void list(const struct ops *const *peers)
{
    for (; *peers; peers++)
        for (const char *const *row = (*peers)->rows; *row; row += 2)
            printf("{\"peer\":\"%s\",\"version\":\"%s\",\"loop\":\"%s\",\"mode\":\"%s\"}\n", (*peers)->peer, PEER_VERSION,
                   row[0], row[1]);
}

/* Status 2. */
static inline int refused(const char *what)
{
    fprintf(stderr, "'%s': expected list, or PEER LOOP MODE [key=value]...; keys: issuers workers warmup_ms time_ms items spin "
                    "samples period_us hogs spins batch\n", what);
    return 2;
}

static inline int parse(int argc, char **argv, const struct ops *const *peers)
{
    if (argc < 4)
        return refused(argc > 1 ? argv[1] : "");
    options.peer = argv[1];
    options.lap = argv[2];
    options.mode = argv[3];
    uint64_t issuers = 1, workers = (uint64_t)CPU_COUNT(&all_cpus);
    options.warmup_ms = 200;
    options.time_ms = 1000;
    options.items = 200000;
    options.spin = 10000;
    options.samples = 1000;
    options.period_us = 2000;
    options.hogs = 8;
    options.spins = 50000;
    options.batch = 25;
    struct {
        const char *key;
        uint64_t *value;
    } keys[] = {{"issuers", &issuers}, {"workers", &workers}, {"warmup_ms", &options.warmup_ms},
                {"time_ms", &options.time_ms}, {"items", &options.items}, {"spin", &options.spin},
                {"samples", &options.samples}, {"period_us", &options.period_us}, {"hogs", &options.hogs},
                {"spins", &options.spins}, {"batch", &options.batch}};
    for (int index = 4; index < argc; index++) {
        size_t known = sizeof keys / sizeof *keys, key = 0;
        char *equals = strchr(argv[index], '='), *end = NULL;
        while (key < known && !(equals && strlen(keys[key].key) == (size_t)(equals - argv[index]) &&
                                strncmp(keys[key].key, argv[index], (size_t)(equals - argv[index])) == 0))
            key++;
        if (key == known)
            return refused(argv[index]);
        *keys[key].value = strtoull(equals + 1, &end, 10);
        if (*end || *keys[key].value == 0)
            return refused(argv[index]);
    }
    options.issuers = (int)issuers;
    options.workers = (int)workers;
    for (; *peers; peers++)
        if (strcmp((*peers)->peer, options.peer) == 0 && listed(*peers, options.lap, options.mode))
            ops = *peers;
    return ops ? 0 : refused(argv[1]);
}

/* `peers` ends with NULL. */
static inline int peer_main(int argc, char **argv, const struct ops *const *peers)
{
    sched_getaffinity(0, sizeof all_cpus, &all_cpus);
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        list(peers);
        return 0;
    }
    int status = parse(argc, argv, peers);
    if (status)
        return status;
    uint64_t spin_ns = strcmp(options.lap, "window") && strcmp(options.lap, "epoll") && strcmp(options.lap, "block") ? 0 : spin_takes();
    ops->start(options.workers);
    int floods = is_flood(), idles = strcmp(options.lap, "idle") == 0;
    /* These end when they have their samples, the others when their time is up. */
    int samples = idles || strcmp(options.lap, "hogged") == 0;
    pthread_barrier_init(&together, NULL, (unsigned)options.issuers + 1);
    pthread_barrier_init(&apart, NULL, (unsigned)options.issuers + 1);
    struct issuer *issuers = (struct issuer *)calloc((size_t)options.issuers, sizeof *issuers);
    if (!issuers)
        out_of_memory();
    for (int number = 0; number < options.issuers; number++) {
        issuers[number].number = number;
        sem_init(&issuers[number].told, 0, 0);
        if (pthread_create(&issuers[number].thread, NULL, issuer_thread, &issuers[number]) != 0)
            fail("no thread for an issuer");
    }

    uint64_t wall_ns = 0, cpu_ns = 0, start, cpu_start;
    if (floods) {
        for (int round = 0; round == 0 || wall_ns < options.time_ms * 1000000; round++) {
            /* Before the issuers begin: this thread may get a CPU only when much of the round is over. */
            start = now_ns(), cpu_start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
            pthread_barrier_wait(&together);
            pthread_barrier_wait(&apart);
            if (round > 0) {
                wall_ns += now_ns() - start;
                cpu_ns += clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
            }
        }
        __atomic_store_n(&phase, 2, __ATOMIC_RELAXED);
        pthread_barrier_wait(&together);
    } else {
        pthread_barrier_wait(&together);
        if (!samples)
            sleep_us(options.warmup_ms * 1000);
        start = now_ns(), cpu_start = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        __atomic_store_n(&phase, 1, __ATOMIC_RELAXED);
        if (!samples)
            sleep_us(options.time_ms * 1000);
        else
            pthread_join(issuers[0].thread, NULL);
        __atomic_store_n(&phase, 2, __ATOMIC_RELAXED);
        wall_ns = now_ns() - start, cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_start;
    }

    struct issuer sum;
    memset(&sum, 0, sizeof sum);
    for (int number = 0; number < options.issuers; number++) {
        struct issuer *issuer = &issuers[number];
        if (!samples)
            pthread_join(issuer->thread, NULL);
        sum.items += issuer->items;
        sum.queued += issuer->queued;
        sum.ran += issuer->ran;
        sum.after_hogs += issuer->after_hogs;
        append(&sum.enqueue, &issuer->enqueue);
        append(&sum.latency, &issuer->latency);
        append(&sum.sleeper, &issuer->sleeper);
        append(&sum.learned, &issuer->learned);
        append(&sum.batches, &issuer->batches);
    }
    if (sum.ran != sum.queued) {
        fprintf(stderr, "%s: %llu items were queued, %llu ran\n", options.peer, (unsigned long long)sum.queued,
                (unsigned long long)sum.ran);
        return 3;
    }
    if (sum.batches.length && !sum.latency.length)
        fail("the hogs ended before the first sample");
    if (idles) {
        puts("idle");
        fflush(stdout);
        while (getchar() != '\n' && !feof(stdin))
            ;
    }
    printf("{\"items\":%llu,\"seconds\":%.9f,\"cpu_s\":%.9f,\"spin_ns\":%llu", (unsigned long long)sum.items,
           (double)wall_ns / 1e9, (double)cpu_ns / 1e9, (unsigned long long)spin_ns);
    percentiles("enqueue", &sum.enqueue);
    percentiles("latency", &sum.latency);
    percentiles("sleeper", &sum.sleeper);
    percentiles("told", &sum.learned);
    if (sum.batches.length) {
        /* Sorted by now. */
        printf(",\"latency_max_ns\":%llu,\"after_hogs\":%llu",
               (unsigned long long)sum.latency.values[sum.latency.length - 1], (unsigned long long)sum.after_hogs);
        percentiles("batch", &sum.batches);
    }
    if (floods)
        printf(",\"peak_kib\":%ld", peak_kib());
    puts("}");
    fflush(stdout);
    /* The pools' threads wait for ever: they end with the process. */
    _exit(0);
}

#endif

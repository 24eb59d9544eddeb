/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: sums that many threads
 * add to: one atomic number, so that a read is the sum. A program that brings its own defines
 * CMWQ_NO_PERCPU.
 */
#ifndef CMWQ_LINUX_PERCPU_COUNTER_H
#define CMWQ_LINUX_PERCPU_COUNTER_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_PERCPU
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/percpu_counter.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_PERCPU

#include <linux/gfp.h>
#include <linux/types.h>

struct percpu_counter {
	int64_t count;
};

static inline CMWQ_MUST_CHECK int percpu_counter_init(struct percpu_counter *counter,
	int64_t amount, gfp_t gfp)
{
	(void)gfp;
	__atomic_store_n(&counter->count, amount, __ATOMIC_RELAXED);
	return 0;
}

static inline void percpu_counter_destroy(struct percpu_counter *counter)
{
	(void)counter;
}

static inline void percpu_counter_set(struct percpu_counter *counter, int64_t amount)
{
	__atomic_store_n(&counter->count, amount, __ATOMIC_RELAXED);
}

static inline void percpu_counter_add(struct percpu_counter *counter, int64_t amount)
{
	__atomic_fetch_add(&counter->count, amount, __ATOMIC_RELAXED);
}

static inline int64_t percpu_counter_read(struct percpu_counter *counter)
{
	return __atomic_load_n(&counter->count, __ATOMIC_RELAXED);
}

static inline int64_t percpu_counter_read_positive(struct percpu_counter *counter)
{
	int64_t count = percpu_counter_read(counter);

	return count < 0 ? 0 : count;
}

static inline int percpu_counter_compare(struct percpu_counter *counter, int64_t with)
{
	int64_t count = percpu_counter_read(counter);

	return count < with ? -1 : count > with;
}

#define percpu_counter_add_batch(counter, amount, batch) percpu_counter_add((counter), (amount))
#define percpu_counter_sub(counter, amount) percpu_counter_add((counter), -(int64_t)(amount))
#define percpu_counter_inc(counter) percpu_counter_add((counter), 1)
#define percpu_counter_dec(counter) percpu_counter_add((counter), -1)
#define percpu_counter_sum(counter) percpu_counter_read(counter)
#define percpu_counter_sum_positive(counter) percpu_counter_read_positive(counter)
#define percpu_counter_initialized(counter) true

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: things that are done
 * `burst` times in an interval, and no more. A program that brings its own defines CMWQ_NO_PRINTK.
 */
#ifndef CMWQ_LINUX_RATELIMIT_H
#define CMWQ_LINUX_RATELIMIT_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_PRINTK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/ratelimit.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_PRINTK

#include <linux/jiffies.h>
#include <stdint.h>

#define DEFAULT_RATELIMIT_INTERVAL (5 * HZ)
#define DEFAULT_RATELIMIT_BURST 10

/* `interval`: in jiffies; 0: there is no limit. */
struct ratelimit_state {
	int interval, burst;
	uint64_t began_ns;
	int done, missed;
};

#define RATELIMIT_STATE_INIT(name, interval, burst) {(interval), (burst), 0, 0, 0}
#define DEFINE_RATELIMIT_STATE(name, interval, burst) \
	struct ratelimit_state name = RATELIMIT_STATE_INIT(name, interval, burst)

static inline void ratelimit_state_init(struct ratelimit_state *limit, int interval, int burst)
{
	limit->interval = interval;
	limit->burst = burst;
	limit->began_ns = 0;
	limit->done = limit->missed = 0;
}

#define ratelimit_default_init(limit) \
	ratelimit_state_init((limit), DEFAULT_RATELIMIT_INTERVAL, DEFAULT_RATELIMIT_BURST)
#define ratelimit_set_flags(limit, flags) ((void)(limit))

/* 1: it may be done. Of threads that ask as an interval begins, one or two more may. */
static inline int __ratelimit(struct ratelimit_state *limit)
{
	uint64_t now = cmwq_now_ns(), began = __atomic_load_n(&limit->began_ns, __ATOMIC_RELAXED);

	if (!limit->interval)
		return 1;
	if (!began || now - began > (uint64_t)limit->interval * (1000000000u / HZ)) {
		__atomic_store_n(&limit->began_ns, now, __ATOMIC_RELAXED);
		__atomic_store_n(&limit->done, 0, __ATOMIC_RELAXED);
	}
	if (__atomic_load_n(&limit->done, __ATOMIC_RELAXED) < limit->burst &&
	    __atomic_fetch_add(&limit->done, 1, __ATOMIC_RELAXED) < limit->burst)
		return 1;
	__atomic_fetch_add(&limit->missed, 1, __ATOMIC_RELAXED);
	return 0;
}

#define WARN_RATELIMIT(condition, ...)                                                \
	__extension__({                                                               \
		static DEFINE_RATELIMIT_STATE(cmwq_limit, DEFAULT_RATELIMIT_INTERVAL, \
			DEFAULT_RATELIMIT_BURST);                                     \
		int cmwq_is_so = !!(condition);                                       \
		if (cmwq_is_so && __ratelimit(&cmwq_limit))                           \
			(void)WARN(1, __VA_ARGS__);                                   \
		cmwq_is_so;                                                           \
	})

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: completions. A work
 * function that waits counts as blocked, so that another runs meanwhile. Nothing interrupts a wait:
 * the interruptible and killable kinds return 0. A program that brings its own defines
 * CMWQ_NO_COMPLETION.
 */
#ifndef CMWQ_LINUX_COMPLETION_H
#define CMWQ_LINUX_COMPLETION_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_COMPLETION
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/completion.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_COMPLETION

#include <limits.h>
#include <linux/jiffies.h>
#include <linux/cmwq_delay.h>
#include <stdbool.h>

struct completion {
	struct cmwq_completion done;
};

#define COMPLETION_INITIALIZER(name) {CMWQ_COMPLETION_INIT}
#define COMPLETION_INITIALIZER_ONSTACK(name) COMPLETION_INITIALIZER(name)
#define DECLARE_COMPLETION(name) struct completion name = COMPLETION_INITIALIZER(name)
#define DECLARE_COMPLETION_ONSTACK(name) DECLARE_COMPLETION(name)
/* The maps are for a lock checker, which this library does not have. */
#define COMPLETION_INITIALIZER_ONSTACK_MAP(name, map) COMPLETION_INITIALIZER(name)
#define DECLARE_COMPLETION_ONSTACK_MAP(name, map) DECLARE_COMPLETION(name)
#define init_completion_map(x, map) init_completion(x)

static inline void init_completion(struct completion *x)
{
	x->done.private_state = 0;
}

static inline void reinit_completion(struct completion *x)
{
	cmwq_reinit_completion(&x->done);
}

static inline void complete(struct completion *x)
{
	cmwq_complete(&x->done);
}

static inline void complete_all(struct completion *x)
{
	cmwq_complete_all(&x->done);
}

static inline CMWQ_MUST_CHECK bool try_wait_for_completion(struct completion *x)
{
	return cmwq_try_wait_for_completion(&x->done);
}

static inline bool completion_done(struct completion *x)
{
	return cmwq_completion_done(&x->done);
}

static inline void wait_for_completion(struct completion *x)
{
	cmwq_wait_for_completion(&x->done);
}

static inline void wait_for_completion_io(struct completion *x)
{
	wait_for_completion(x);
}

static inline int wait_for_completion_interruptible(struct completion *x)
{
	wait_for_completion(x);
	return 0;
}

static inline int wait_for_completion_killable(struct completion *x)
{
	wait_for_completion(x);
	return 0;
}

/*
 * Returns 0 if the completion was not done in time, otherwise the number of jiffies that were left,
 * at least 1.
 */
static inline CMWQ_MUST_CHECK unsigned long wait_for_completion_timeout(struct completion *x,
	unsigned long timeout)
{
	uint64_t start = cmwq_now_ns(), used;

	if (timeout >= LONG_MAX) {
		wait_for_completion(x);
		return timeout;
	}
	if (!cmwq_wait_for_completion_timeout_ns(&x->done, cmwq_jiffies_to_ns(timeout)))
		return 0;
	used = (cmwq_now_ns() - start) / CMWQ_NSEC_PER_JIFFY;
	return used < timeout ? (unsigned long)(timeout - used) : 1;
}

static inline CMWQ_MUST_CHECK unsigned long wait_for_completion_io_timeout(struct completion *x,
	unsigned long timeout)
{
	return wait_for_completion_timeout(x, timeout);
}

static inline int wait_for_completion_state(struct completion *x, unsigned int state)
{
	(void)state;
	wait_for_completion(x);
	return 0;
}

static inline CMWQ_MUST_CHECK long wait_for_completion_interruptible_timeout(struct completion *x,
	unsigned long timeout)
{
	return (long)wait_for_completion_timeout(x, timeout);
}

static inline CMWQ_MUST_CHECK long wait_for_completion_killable_timeout(struct completion *x,
	unsigned long timeout)
{
	return (long)wait_for_completion_timeout(x, timeout);
}

#define complete_on_current_cpu(x) complete(x)

#endif
#endif

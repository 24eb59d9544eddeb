/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: a work function that
 * sleeps by these lets another item run meanwhile, at once. A program that brings its own defines
 * CMWQ_NO_DELAY.
 */
#ifndef CMWQ_LINUX_DELAY_H
#define CMWQ_LINUX_DELAY_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_DELAY
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/delay.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_DELAY

#include <stdint.h>

static inline void msleep(unsigned int ms)
{
	cmwq_sleep_ns(ms * (uint64_t)1000000);
}

/* What was left when a signal came: nothing, since it goes on sleeping. */
static inline unsigned long msleep_interruptible(unsigned int ms)
{
	msleep(ms);
	return 0;
}

static inline void ssleep(unsigned int seconds)
{
	cmwq_sleep_ns(seconds * (uint64_t)1000000000);
}

static inline void usleep_range(unsigned long min_us, unsigned long max_us)
{
	(void)max_us;
	cmwq_sleep_ns(min_us * (uint64_t)1000);
}

#define usleep_range_state(min_us, max_us, state) usleep_range((min_us), (max_us))

static inline void fsleep(unsigned long us)
{
	cmwq_sleep_ns(us * (uint64_t)1000);
}

/* Awake. */
static inline void ndelay(unsigned long ns)
{
	uint64_t end = cmwq_now_ns() + ns;

	while (cmwq_now_ns() < end)
		;
}

static inline void udelay(unsigned long us)
{
	ndelay(us * 1000);
}

static inline void mdelay(unsigned long ms)
{
	ndelay(ms * 1000000);
}

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: time in jiffies of a
 * millisecond (HZ is 1000). Conversions round up, so that a delay is never shorter than what was
 * asked for. A program that brings its own defines CMWQ_NO_JIFFIES; delays are then counted by its
 * HZ, or by CMWQ_NSEC_PER_JIFFY if it defines that.
 */
#ifndef CMWQ_LINUX_JIFFIES_H
#define CMWQ_LINUX_JIFFIES_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_JIFFIES
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/jiffies.h"
#include <linux/cmwq_next.h>
#endif

#include <limits.h>
#include <time.h>

#ifndef CMWQ_NO_JIFFIES

/* The system's <sys/param.h> has another, which does not count here. */
#undef HZ
#define HZ 1000
#ifndef USER_HZ
#define USER_HZ 100
#endif
#define CMWQ_JIFFIES_ARE_MS
#ifndef MSEC_PER_SEC
#define MSEC_PER_SEC 1000L
#endif
#ifndef NSEC_PER_SEC
#define USEC_PER_MSEC 1000L
#define NSEC_PER_USEC 1000L
#define NSEC_PER_MSEC 1000000L
#define USEC_PER_SEC 1000000L
#define NSEC_PER_SEC 1000000000L
#endif

#define MAX_JIFFY_OFFSET ((LONG_MAX >> 1) - 1)
#ifndef MAX_SCHEDULE_TIMEOUT
#define MAX_SCHEDULE_TIMEOUT LONG_MAX
#endif

/* The present, by the clock that delays are counted by. */
#ifndef jiffies
#define jiffies ((unsigned long)(cmwq_now_ns() / 1000000))
#endif

static inline unsigned long long get_jiffies_64(void)
{
	return jiffies;
}

#ifndef jiffies_64
#define jiffies_64 (get_jiffies_64())
#endif
/*
 * The kernel's begin shortly before they overflow 32 bits, to find code that cannot do with that;
 * ours are the clock's.
 */
#define INITIAL_JIFFIES 0UL

static inline unsigned long msecs_to_jiffies(unsigned int ms)
{
	/* Negative values of callers with signed numbers mean "for ever". */
	return (int)ms < 0 ? (unsigned long)MAX_JIFFY_OFFSET : ms;
}

static inline unsigned long usecs_to_jiffies(unsigned int us)
{
	return ((unsigned long)us + 999) / 1000;
}

static inline unsigned long nsecs_to_jiffies(unsigned long long ns)
{
	return (unsigned long)(ns / 1000000);
}

static inline unsigned long long nsecs_to_jiffies64(unsigned long long ns)
{
	return ns / 1000000;
}

static inline unsigned long secs_to_jiffies(unsigned int s)
{
	return (unsigned long)s * HZ;
}

static inline unsigned int jiffies_to_msecs(unsigned long j)
{
	return (unsigned int)j;
}

static inline unsigned int jiffies_to_usecs(unsigned long j)
{
	return (unsigned int)(j * 1000);
}

static inline unsigned long long jiffies_to_nsecs(unsigned long j)
{
	return j * 1000000ull;
}

static inline unsigned long long jiffies64_to_nsecs(unsigned long long j)
{
	return j * 1000000ull;
}

static inline unsigned long long jiffies64_to_msecs(unsigned long long j)
{
	return j;
}

static inline unsigned int jiffies_delta_to_msecs(long delta)
{
	return delta < 0 ? 0 : jiffies_to_msecs((unsigned long)delta);
}

/* Clock ticks, as user space has always been told them, are hundredths of a second. */
static inline clock_t jiffies_to_clock_t(unsigned long j)
{
	return (clock_t)(j / (HZ / USER_HZ));
}

static inline clock_t jiffies_delta_to_clock_t(long delta)
{
	return jiffies_to_clock_t(delta < 0 ? 0 : (unsigned long)delta);
}

static inline unsigned long clock_t_to_jiffies(unsigned long ticks)
{
	return ticks >= ~0UL / (HZ / USER_HZ) ? ~0UL : ticks * (HZ / USER_HZ);
}

static inline unsigned long long jiffies_64_to_clock_t(unsigned long long j)
{
	return j / (HZ / USER_HZ);
}

/* They go right over the end of the numbers. */
#define time_after(a, b) ((long)((unsigned long)(b) - (unsigned long)(a)) < 0)
#define time_before(a, b) time_after(b, a)
#define time_after_eq(a, b) ((long)((unsigned long)(a) - (unsigned long)(b)) >= 0)
#define time_before_eq(a, b) time_after_eq(b, a)
#define time_in_range(a, b, c) (time_after_eq(a, b) && time_before_eq(a, c))
#define time_in_range_open(a, b, c) (time_after_eq(a, b) && time_before(a, c))
#define time_is_before_jiffies(a) time_after(jiffies, a)
#define time_is_after_jiffies(a) time_before(jiffies, a)
#define time_is_before_eq_jiffies(a) time_after_eq(jiffies, a)
#define time_is_after_eq_jiffies(a) time_before_eq(jiffies, a)
/* The same of 64 bits. */
#define time_after64(a, b) ((long long)((unsigned long long)(b) - (unsigned long long)(a)) < 0)
#define time_before64(a, b) time_after64(b, a)
#define time_after_eq64(a, b) ((long long)((unsigned long long)(a) - (unsigned long long)(b)) >= 0)
#define time_before_eq64(a, b) time_after_eq64(b, a)
#define time_in_range64(a, b, c) (time_after_eq64(a, b) && time_before_eq64(a, c))
#define time_is_before_jiffies64(a) time_after64(get_jiffies_64(), a)
#define time_is_after_jiffies64(a) time_before64(get_jiffies_64(), a)

#define TICK_NSEC 1000000L
#define __round_jiffies(j, cpu) round_jiffies(j)
#define __round_jiffies_relative(j, cpu) round_jiffies_relative(j)
/* Kernel code rounds timers that need not be exact to whole seconds, to save wake-ups. */
static inline unsigned long round_jiffies(unsigned long j)
{
	unsigned long rounded = (j + HZ / 2) / HZ * HZ;

	return time_is_before_jiffies(rounded) ? j : rounded;
}

static inline unsigned long round_jiffies_relative(unsigned long j)
{
	unsigned long now = jiffies;

	return round_jiffies(j + now) - now;
}

static inline unsigned long round_jiffies_up(unsigned long j)
{
	unsigned long rounded = (j + HZ - 1) / HZ * HZ;

	return time_is_before_jiffies(rounded) ? j : rounded;
}

static inline unsigned long round_jiffies_up_relative(unsigned long j)
{
	unsigned long now = jiffies;

	return (j + now + HZ - 1) / HZ * HZ - now;
}

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: the monotonic clock. A
 * program that brings its own defines CMWQ_NO_KTIME.
 */
#ifndef CMWQ_LINUX_KTIME_H
#define CMWQ_LINUX_KTIME_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KTIME
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/ktime.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KTIME

#include <time.h>

typedef int64_t ktime_t;

static inline uint64_t ktime_get_ns(void)
{
	return cmwq_now_ns();
}

static inline ktime_t ktime_get(void)
{
	return (ktime_t)cmwq_now_ns();
}

#define ktime_to_ns(time) ((int64_t)(time))
#define ktime_to_us(time) ((int64_t)(time) / 1000)
#define ktime_to_ms(time) ((int64_t)(time) / 1000000)
#define ktime_sub(later, earlier) ((later) - (earlier))
#define ktime_us_delta(later, earlier) ktime_to_us(ktime_sub(later, earlier))
#define ktime_ms_delta(later, earlier) ktime_to_ms(ktime_sub(later, earlier))

/* ---- other clocks ---- */

/* Since 1970. */
static inline ktime_t ktime_get_real(void)
{
	struct timespec now = {0, 0};

	timespec_get(&now, TIME_UTC);
	return (ktime_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define ktime_get_boottime() ktime_get()
#define ktime_get_boottime_ns() ktime_get_ns()
#define ktime_get_raw() ktime_get()
#define ktime_get_raw_ns() ktime_get_ns()
#define ktime_get_mono_fast_ns() ktime_get_ns()
#define ktime_get_coarse() ktime_get()
#define ktime_get_real_ns() ((uint64_t)ktime_get_real())
#define ktime_get_real_seconds() (ktime_get_real() / 1000000000)
#define ktime_get_seconds() (ktime_get() / 1000000000)
#define local_clock() ktime_get_ns()
#define sched_clock() ktime_get_ns()

#define KTIME_MAX ((ktime_t)INT64_MAX)
#define ktime_set(seconds, ns) ((ktime_t)(seconds) * 1000000000 + (ktime_t)(ns))
#define ns_to_ktime(ns) ((ktime_t)(ns))
#define us_to_ktime(us) ((ktime_t)(us) * 1000)
#define ms_to_ktime(ms) ((ktime_t)(ms) * 1000000)
#define ktime_add(a, b) ((a) + (b))
#define ktime_add_ns(time, ns) ((time) + (ktime_t)(ns))
#define ktime_add_us(time, us) ((time) + (ktime_t)(us) * 1000)
#define ktime_add_ms(time, ms) ((time) + (ktime_t)(ms) * 1000000)
#define ktime_sub_ns(time, ns) ((time) - (ktime_t)(ns))
#define ktime_after(a, b) ((a) > (b))
#define ktime_before(a, b) ((a) < (b))
#define ktime_compare(a, b) ((a) < (b) ? -1 : (a) > (b))

#endif
#endif

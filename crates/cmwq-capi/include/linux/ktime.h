/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: the monotonic clock. A program that brings its own defines CMWQ_NO_KTIME.
 */
#ifndef CMWQ_LINUX_KTIME_H
#define CMWQ_LINUX_KTIME_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KTIME
#if defined(__has_include_next)
#if __has_include_next(<linux/ktime.h>)
#include_next <linux/ktime.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_KTIME

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

#endif
#endif

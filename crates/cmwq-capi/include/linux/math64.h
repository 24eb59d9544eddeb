/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: divisions of 64 bits. A program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_MATH64_H
#define CMWQ_LINUX_MATH64_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#if defined(__has_include_next)
#if __has_include_next(<linux/math64.h>)
#include_next <linux/math64.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <linux/types.h>

static inline uint64_t div_u64(uint64_t dividend, uint32_t divisor)
{
	return dividend / divisor;
}

static inline uint64_t div64_u64(uint64_t dividend, uint64_t divisor)
{
	return dividend / divisor;
}

static inline int64_t div_s64(int64_t dividend, int32_t divisor)
{
	return dividend / divisor;
}

static inline uint64_t div_u64_rem(uint64_t dividend, uint32_t divisor, uint32_t *rest)
{
	*rest = (uint32_t)(dividend % divisor);
	return dividend / divisor;
}

#define div64_ul(dividend, divisor) div64_u64((dividend), (divisor))

#ifndef do_div
/* Divides in place; the rest is the value. */
#define do_div(n, by)                                      \
	__extension__({                                    \
		uint32_t cmwq_by = (uint32_t)(by);         \
		uint32_t cmwq_rest = (uint32_t)((n) % cmwq_by); \
		(n) /= cmwq_by;                            \
		cmwq_rest;                                 \
	})
#endif

#endif
#endif

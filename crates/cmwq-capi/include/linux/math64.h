/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: divisions of 64 bits. A
 * program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_MATH64_H
#define CMWQ_LINUX_MATH64_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/math64.h"
#include <linux/cmwq_next.h>
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

static inline int64_t div64_s64(int64_t dividend, int64_t divisor)
{
	return dividend / divisor;
}

static inline uint64_t div64_u64_rem(uint64_t dividend, uint64_t divisor, unsigned long long *rest)
{
	*rest = dividend % divisor;
	return dividend / divisor;
}

__extension__ typedef unsigned __int128 cmwq_u128;

/* Without losing what is beyond 64 bits on the way. */
static inline uint64_t mul_u64_u64_div_u64(uint64_t a, uint64_t b, uint64_t by)
{
	return (uint64_t)((cmwq_u128)a * b / by);
}

static inline uint64_t mul_u64_u32_shr(uint64_t a, uint32_t b, unsigned int shift)
{
	return (uint64_t)((cmwq_u128)a * b >> shift);
}

#define mul_u32_u32(a, b) ((uint64_t)(uint32_t)(a) * (uint32_t)(b))
#define DIV64_U64_ROUND_UP(n, by) (((uint64_t)(n) + (uint64_t)(by) - 1) / (uint64_t)(by))
#define DIV64_U64_ROUND_CLOSEST(n, by) (((uint64_t)(n) + (uint64_t)(by) / 2) / (uint64_t)(by))

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: sums and products that
 * may not fit: true, and whatever came of it; sizes stop at the largest. A program that brings its
 * own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_OVERFLOW_H
#define CMWQ_LINUX_OVERFLOW_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/overflow.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <stddef.h>
#include <stdint.h>

#define check_add_overflow(a, b, to) __builtin_add_overflow((a), (b), (to))
#define check_sub_overflow(a, b, to) __builtin_sub_overflow((a), (b), (to))
#define check_mul_overflow(a, b, to) __builtin_mul_overflow((a), (b), (to))

static inline size_t size_add(size_t a, size_t b)
{
	size_t sum;

	return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

static inline size_t size_mul(size_t a, size_t b)
{
	size_t product;

	return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

/* SIZE_MAX as well if one of them is that: it came of a sum or a product that did not fit. */
static inline size_t size_sub(size_t a, size_t b)
{
	return a == SIZE_MAX || b == SIZE_MAX || b > a ? SIZE_MAX : a - b;
}

#define array_size(n, size) size_mul((n), (size))
#define array3_size(a, b, size) size_mul(size_mul((a), (b)), (size))
/* Of a structure with `n` elements in its last member. */
#define flex_array_size(ptr, member, n) size_mul(sizeof(*(ptr)->member), (n))
#define struct_size(ptr, member, n) size_add(sizeof(*(ptr)), flex_array_size(ptr, member, n))
#define struct_size_t(type, member, n) \
	size_add(sizeof(type), size_mul(sizeof(*((type *)0)->member), (n)))

#endif
#endif

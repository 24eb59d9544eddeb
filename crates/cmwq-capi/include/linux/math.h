/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: rounding. A program that
 * brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_MATH_H
#define CMWQ_LINUX_MATH_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/math.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <linux/kernel.h>

/* The largest number whose square is not more than `n`. */
static inline unsigned long int_sqrt(unsigned long n)
{
	unsigned long root = 0, bit;

	for (bit = 1ul << 31; bit; bit >>= 1)
		if ((root | bit) * (root | bit) <= n)
			root |= bit;
	return root;
}

static inline uint64_t int_pow(uint64_t base, unsigned int exponent)
{
	uint64_t power = 1;

	while (exponent--)
		power *= base;
	return power;
}

/* A number of 32 bits, brought below `limit`. */
static inline uint32_t reciprocal_scale(uint32_t value, uint32_t limit)
{
	return (uint32_t)((uint64_t)value * limit >> 32);
}

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: numbers and addresses,
 * scattered over a table of 2 to the power of `bits`. A program that brings its own defines
 * CMWQ_NO_LIST.
 */
#ifndef CMWQ_LINUX_HASH_H
#define CMWQ_LINUX_HASH_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_LIST
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/hash.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_LIST

#include <stdint.h>

/* The golden ratio's part behind the point, times 2 to the 32nd and the 64th. */
#define GOLDEN_RATIO_32 0x9e3779b9u
#define GOLDEN_RATIO_64 0x9e3779b97f4a7c15ull

static inline uint32_t hash_32(uint32_t value, unsigned int bits)
{
	return (uint32_t)(value * GOLDEN_RATIO_32) >> (31 - bits) >> 1;
}

static inline uint32_t hash_64(uint64_t value, unsigned int bits)
{
	return (uint32_t)(value * GOLDEN_RATIO_64 >> (63 - bits) >> 1);
}

#define hash_long(value, bits) hash_64((unsigned long)(value), (bits))
#define hash_ptr(ptr, bits) hash_64((uint64_t)(uintptr_t)(ptr), (bits))

#endif
#endif

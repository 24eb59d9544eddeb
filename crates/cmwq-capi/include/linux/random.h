/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: random numbers, from the
 * system. A program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_RANDOM_H
#define CMWQ_LINUX_RANDOM_H

#include <linux/cmwq_base.h>
/* The system has one as well: requests of /dev/random. */
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/random.h"
#include <linux/cmwq_next.h>

#ifndef CMWQ_NO_KERNEL_MACROS

#include <linux/types.h>
#include <stdlib.h>
#include <sys/random.h>

static inline void get_random_bytes(void *to, size_t size)
{
	char *at = (char *)to;

	while (size) {
		/* 256 at a time come whole, whatever signals do. */
		size_t part = size < 256 ? size : 256;

		if (getrandom(at, part, 0) != (ssize_t)part)
			abort();
		at += part;
		size -= part;
	}
}

static inline uint32_t get_random_u32(void)
{
	uint32_t value;

	get_random_bytes(&value, sizeof(value));
	return value;
}

static inline uint64_t get_random_u64(void)
{
	uint64_t value;

	get_random_bytes(&value, sizeof(value));
	return value;
}

/* Less than `limit`, which is not 0. */
static inline uint32_t get_random_u32_below(uint32_t limit)
{
	return (uint32_t)((uint64_t)get_random_u32() * limit >> 32);
}

#define get_random_long() ((unsigned long)get_random_u64())
#define get_random_u8() ((uint8_t)get_random_u32())
#define get_random_u16() ((uint16_t)get_random_u32())
#define get_random_u32_inclusive(first, last) ((first) + get_random_u32_below((last) - (first) + 1))

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: masks of bits. A program
 * that brings its own defines CMWQ_NO_BITOPS.
 */
#ifndef CMWQ_LINUX_BITS_H
#define CMWQ_LINUX_BITS_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_BITOPS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/bits.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_BITOPS

#include <limits.h>

#ifndef BITS_PER_LONG
#define BITS_PER_LONG 64
#endif
#define BITS_PER_BYTE 8
#define BITS_PER_LONG_LONG 64
#define BITS_PER_TYPE(type) (sizeof(type) * BITS_PER_BYTE)
#define BITS_TO_BYTES(n) (((n) + BITS_PER_BYTE - 1) / BITS_PER_BYTE)
#define BITS_TO_U32(n) (((n) + 31) / 32)
#define BITS_TO_U64(n) (((n) + 63) / 64)
#define BITS_TO_LONGS(n) (((n) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define BIT(n) (1UL << (n))
#define BIT_ULL(n) (1ULL << (n))
#define BIT_MASK(n) (1UL << ((n) % BITS_PER_LONG))
#define BIT_WORD(n) ((n) / BITS_PER_LONG)
#define GENMASK(high, low) ((~0UL << (low)) & (~0UL >> (BITS_PER_LONG - 1 - (high))))
#define GENMASK_ULL(high, low) ((~0ULL << (low)) & (~0ULL >> (BITS_PER_LONG_LONG - 1 - (high))))
#ifndef DECLARE_BITMAP
#define DECLARE_BITMAP(name, bits) unsigned long name[BITS_TO_LONGS(bits)]
#endif

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: sets of `nbits` bits in
 * arrays of unsigned long. Not atomic. Bits beyond the last are of no account when maps are read,
 * and may change when they are written. A program that brings its own defines CMWQ_NO_BITOPS.
 */
#ifndef CMWQ_LINUX_BITMAP_H
#define CMWQ_LINUX_BITMAP_H

#include <linux/cmwq_base.h>
#if defined(CMWQ_NO_BITOPS)
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/bitmap.h"
#include <linux/cmwq_next.h>
#else

#include <linux/bitops.h>
#include <stdlib.h>
#include <linux/cmwq_bitmap_text.h>
#include <string.h>

#define BITMAP_LAST_WORD_MASK(nbits) (~0UL >> (-(nbits) & (BITS_PER_LONG - 1)))
#define BITMAP_FIRST_WORD_MASK(start) (~0UL << ((start) & (BITS_PER_LONG - 1)))

static inline CMWQ_MUST_CHECK unsigned long *bitmap_zalloc(unsigned int nbits, unsigned int flags)
{
	(void)flags;
	return (unsigned long *)calloc(BITS_TO_LONGS(nbits) + !nbits, sizeof(unsigned long));
}

#define bitmap_alloc(nbits, flags) bitmap_zalloc((nbits), (flags))

static inline void bitmap_free(const unsigned long *map)
{
	free((void *)(uintptr_t)map);
}

static inline void bitmap_zero(unsigned long *map, unsigned int nbits)
{
	memset(map, 0, BITS_TO_LONGS(nbits) * sizeof(*map));
}

static inline void bitmap_fill(unsigned long *map, unsigned int nbits)
{
	memset(map, 0xff, BITS_TO_LONGS(nbits) * sizeof(*map));
}

static inline void bitmap_copy(unsigned long *to, const unsigned long *from, unsigned int nbits)
{
	memmove(to, from, BITS_TO_LONGS(nbits) * sizeof(*to));
}

static inline void bitmap_set(unsigned long *map, unsigned int start, unsigned int nbits)
{
	for (; nbits; nbits--, start++)
		__set_bit((long)start, map);
}

static inline void bitmap_clear(unsigned long *map, unsigned int start, unsigned int nbits)
{
	for (; nbits; nbits--, start++)
		__clear_bit((long)start, map);
}

/* Word i of a map, without what lies beyond the last bit. */
static inline unsigned long cmwq_bitmap_word(const unsigned long *map, size_t i, unsigned int nbits)
{
	return i == BITS_TO_LONGS(nbits) - 1 ? map[i] & BITMAP_LAST_WORD_MASK(nbits) : map[i];
}

#define CMWQ_BITMAP_OP(name, operation)                                                            \
	static inline bool name(unsigned long *to, const unsigned long *a, const unsigned long *b, \
		unsigned int nbits)                                                                \
	{                                                                                          \
		unsigned long any = 0;                                                             \
		size_t i;                                                                          \
                                                                                                   \
		for (i = 0; i < BITS_TO_LONGS(nbits); i++) {                                       \
			to[i] = operation;                                                         \
			any |= cmwq_bitmap_word(to, i, nbits);                                     \
		}                                                                                  \
		return any != 0;                                                                   \
	}
/* true: a bit is set in the result. */
CMWQ_BITMAP_OP(bitmap_and, a[i] & b[i])
CMWQ_BITMAP_OP(bitmap_or, a[i] | b[i])
CMWQ_BITMAP_OP(bitmap_xor, a[i] ^ b[i])
CMWQ_BITMAP_OP(bitmap_andnot, a[i] & ~b[i])
#undef CMWQ_BITMAP_OP

static inline void bitmap_complement(unsigned long *to, const unsigned long *from,
	unsigned int nbits)
{
	size_t i;

	for (i = 0; i < BITS_TO_LONGS(nbits); i++)
		to[i] = ~from[i];
}

#define CMWQ_BITMAP_NONE(name, operation)                                       \
	static inline bool name(const unsigned long *a, const unsigned long *b, \
		unsigned int nbits)                                             \
	{                                                                       \
		size_t i;                                                       \
                                                                                \
		for (i = 0; i < BITS_TO_LONGS(nbits); i++) {                    \
			unsigned long x = cmwq_bitmap_word(a, i, nbits),        \
				      y = cmwq_bitmap_word(b, i, nbits);        \
                                                                                \
			if (operation)                                          \
				return false;                                   \
		}                                                               \
		return true;                                                    \
	}
CMWQ_BITMAP_NONE(bitmap_equal, x != y)
CMWQ_BITMAP_NONE(bitmap_subset, x & ~y)
CMWQ_BITMAP_NONE(cmwq_bitmap_disjoint, x & y)
#undef CMWQ_BITMAP_NONE

static inline bool bitmap_intersects(const unsigned long *a, const unsigned long *b,
	unsigned int nbits)
{
	return !cmwq_bitmap_disjoint(a, b, nbits);
}

static inline bool bitmap_empty(const unsigned long *map, unsigned int nbits)
{
	return find_first_bit(map, nbits) == nbits;
}

static inline bool bitmap_full(const unsigned long *map, unsigned int nbits)
{
	return find_first_zero_bit(map, nbits) == nbits;
}

static inline unsigned int bitmap_weight(const unsigned long *map, unsigned int nbits)
{
	unsigned int weight = 0;
	size_t i;

	for (i = 0; i < BITS_TO_LONGS(nbits); i++)
		weight += (unsigned int)hweight_long(cmwq_bitmap_word(map, i, nbits));
	return weight;
}

/*
 * Returns where the first `nr` bits in a row that are 0 begin, from `start` on, at a multiple of
 * `align_mask` + 1. A number above `size`: the map has no such row.
 */
static inline unsigned long bitmap_find_next_zero_area(unsigned long *map, unsigned long size,
	unsigned long start, unsigned int nr, unsigned long align_mask)
{
	for (;;) {
		unsigned long set;

		start = (find_next_zero_bit(map, size, start) + align_mask) & ~align_mask;
		if (start + nr > size)
			return size + 1;
		set = find_next_bit(map, start + nr, start);
		if (set >= start + nr)
			return start;
		start = set + 1;
	}
}

#define bitmap_parse(text, length, map, nbits) \
	cmwq_bits_parse_mask((text), (length), (map), (size_t)(nbits))
#define bitmap_parselist(text, map, nbits) cmwq_bits_parse_list((text), (map), (size_t)(nbits))
/* For %*pb and %*pbl. */
#define bitmap_pr_args(map, nbits) (int)(nbits), (void *)(map)

#endif
#endif

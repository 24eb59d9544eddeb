/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: single bits of arrays of
 * unsigned long. What returns the bit's old value orders fully; set_bit() and its like do not
 * order; those with two underscores are not atomic. A program that brings its own defines
 * CMWQ_NO_BITOPS.
 */
#ifndef CMWQ_LINUX_BITOPS_H
#define CMWQ_LINUX_BITOPS_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_BITOPS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/bitops.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_BITOPS

#include <linux/bits.h>
#include <linux/cmwq_barrier.h>
#include <stdbool.h>
#include <stdint.h>

static inline bool test_bit(long n, const volatile unsigned long *bits)
{
	return __atomic_load_n(&bits[BIT_WORD(n)], __ATOMIC_RELAXED) >> (n % BITS_PER_LONG) & 1;
}

static inline bool test_bit_acquire(long n, const volatile unsigned long *bits)
{
	return __atomic_load_n(&bits[BIT_WORD(n)], __ATOMIC_ACQUIRE) >> (n % BITS_PER_LONG) & 1;
}

static inline void set_bit(long n, volatile unsigned long *bits)
{
	__atomic_fetch_or(&bits[BIT_WORD(n)], BIT_MASK(n), CMWQ_UNORDERED);
}

static inline void clear_bit(long n, volatile unsigned long *bits)
{
	__atomic_fetch_and(&bits[BIT_WORD(n)], ~BIT_MASK(n), CMWQ_UNORDERED);
}

static inline void change_bit(long n, volatile unsigned long *bits)
{
	__atomic_fetch_xor(&bits[BIT_WORD(n)], BIT_MASK(n), CMWQ_UNORDERED);
}

static inline bool test_and_set_bit(long n, volatile unsigned long *bits)
{
	unsigned long was = __atomic_fetch_or(&bits[BIT_WORD(n)], BIT_MASK(n), __ATOMIC_SEQ_CST);

	CMWQ_AFTER_FULL(__ATOMIC_SEQ_CST);
	return (was & BIT_MASK(n)) != 0;
}

static inline bool test_and_clear_bit(long n, volatile unsigned long *bits)
{
	unsigned long was = __atomic_fetch_and(&bits[BIT_WORD(n)], ~BIT_MASK(n), __ATOMIC_SEQ_CST);

	CMWQ_AFTER_FULL(__ATOMIC_SEQ_CST);
	return (was & BIT_MASK(n)) != 0;
}

static inline bool test_and_change_bit(long n, volatile unsigned long *bits)
{
	unsigned long was = __atomic_fetch_xor(&bits[BIT_WORD(n)], BIT_MASK(n), __ATOMIC_SEQ_CST);

	CMWQ_AFTER_FULL(__ATOMIC_SEQ_CST);
	return (was & BIT_MASK(n)) != 0;
}

static inline bool test_and_set_bit_lock(long n, volatile unsigned long *bits)
{
	return (__atomic_fetch_or(&bits[BIT_WORD(n)], BIT_MASK(n), __ATOMIC_ACQUIRE) &
		       BIT_MASK(n)) != 0;
}

static inline void clear_bit_unlock(long n, volatile unsigned long *bits)
{
	__atomic_fetch_and(&bits[BIT_WORD(n)], ~BIT_MASK(n), __ATOMIC_RELEASE);
}

static inline void __set_bit(long n, volatile unsigned long *bits)
{
	bits[BIT_WORD(n)] = bits[BIT_WORD(n)] | BIT_MASK(n);
}

static inline void __clear_bit(long n, volatile unsigned long *bits)
{
	bits[BIT_WORD(n)] = bits[BIT_WORD(n)] & ~BIT_MASK(n);
}

static inline void __change_bit(long n, volatile unsigned long *bits)
{
	bits[BIT_WORD(n)] = bits[BIT_WORD(n)] ^ BIT_MASK(n);
}

static inline bool __test_and_set_bit(long n, volatile unsigned long *bits)
{
	bool was = (bits[BIT_WORD(n)] & BIT_MASK(n)) != 0;

	__set_bit(n, bits);
	return was;
}

static inline bool __test_and_clear_bit(long n, volatile unsigned long *bits)
{
	bool was = (bits[BIT_WORD(n)] & BIT_MASK(n)) != 0;

	__clear_bit(n, bits);
	return was;
}

#define assign_bit(n, bits, value) ((value) ? set_bit((n), (bits)) : clear_bit((n), (bits)))

/*
 * Return the number of the lowest and of the highest bit that is set, counted from 0. One bit must
 * be set.
 */
static inline unsigned long __ffs(unsigned long word)
{
	return (unsigned long)__builtin_ctzl(word);
}

static inline unsigned long __fls(unsigned long word)
{
	return BITS_PER_LONG - 1 - (unsigned long)__builtin_clzl(word);
}

static inline unsigned long ffz(unsigned long word)
{
	return __ffs(~word);
}

/* The same from 1 on; 0: there is none. (ffs() is <strings.h>'s.) */
static inline int fls(unsigned int word)
{
	return word ? 32 - __builtin_clz(word) : 0;
}

static inline int fls64(uint64_t word)
{
	return word ? 64 - __builtin_clzll(word) : 0;
}

#define hweight8(word) ((unsigned int)__builtin_popcount((word) & 0xffu))
#define hweight16(word) ((unsigned int)__builtin_popcount((word) & 0xffffu))
#define hweight32(word) ((unsigned int)__builtin_popcount(word))
#define hweight64(word) ((unsigned long)__builtin_popcountll(word))
#define hweight_long(word) ((unsigned long)__builtin_popcountl(word))

/*
 * Returns the next bit, from `from` on, that differs from all bits of `flip`; `size`: there is
 * none.
 */
static inline unsigned long cmwq_find_next_bit(const unsigned long *bits, unsigned long size,
	unsigned long from, unsigned long flip)
{
	while (from < size) {
		unsigned long rest = (bits[from / BITS_PER_LONG] ^ flip) >> from % BITS_PER_LONG;

		if (rest) {
			from += __ffs(rest);
			break;
		}
		from = (from / BITS_PER_LONG + 1) * BITS_PER_LONG;
	}
	return from < size ? from : size;
}

#define find_next_bit(bits, size, from) cmwq_find_next_bit((bits), (size), (from), 0)
#define find_next_zero_bit(bits, size, from) cmwq_find_next_bit((bits), (size), (from), ~0UL)
#define find_first_bit(bits, size) find_next_bit((bits), (size), 0)
#define find_first_zero_bit(bits, size) find_next_zero_bit((bits), (size), 0)
#define for_each_set_bit(n, bits, size)                          \
	for ((n) = find_first_bit((bits), (size)); (n) < (size); \
		(n) = find_next_bit((bits), (size), (n) + 1))
#define for_each_clear_bit(n, bits, size)                             \
	for ((n) = find_first_zero_bit((bits), (size)); (n) < (size); \
		(n) = find_next_zero_bit((bits), (size), (n) + 1))

static inline bool __test_and_change_bit(long n, volatile unsigned long *bits)
{
	bool was = (bits[BIT_WORD(n)] & BIT_MASK(n)) != 0;

	__change_bit(n, bits);
	return was;
}

#define __clear_bit_unlock(n, bits) clear_bit_unlock((n), (bits))
#define __assign_bit(n, bits, value) ((value) ? __set_bit((n), (bits)) : __clear_bit((n), (bits)))
#define for_each_set_bit_from(n, bits, size)                         \
	for ((n) = find_next_bit((bits), (size), (n)); (n) < (size); \
		(n) = find_next_bit((bits), (size), (n) + 1))

/* `size`: there is none. */
static inline unsigned long find_last_bit(const unsigned long *bits, unsigned long size)
{
	unsigned long at;

	for (at = size; at-- > 0;)
		if (bits[at / BITS_PER_LONG] >> at % BITS_PER_LONG & 1)
			return at;
	return size;
}

static inline uint32_t rol32(uint32_t word, unsigned int by)
{
	return word << (by & 31) | word >> (-by & 31);
}

static inline uint32_t ror32(uint32_t word, unsigned int by)
{
	return word >> (by & 31) | word << (-by & 31);
}

static inline uint64_t rol64(uint64_t word, unsigned int by)
{
	return word << (by & 63) | word >> (-by & 63);
}

static inline uint64_t ror64(uint64_t word, unsigned int by)
{
	return word >> (by & 63) | word << (-by & 63);
}

/* The sign is in bit `sign`. */
static inline int32_t sign_extend32(uint32_t value, int sign)
{
	return (int32_t)(value << (31 - sign)) >> (31 - sign);
}

/* ---- several maps ---- */

#define CMWQ_OP_AND(a, b) ((a) & (b))
#define CMWQ_OP_ANDNOT(a, b) ((a) & ~(b))
#define CMWQ_OP_OR(a, b) ((a) | (b))
#define CMWQ_FIND_NEXT(name, OP)                                                         \
	static inline unsigned long name(const unsigned long *a, const unsigned long *b, \
		unsigned long size, unsigned long from)                                  \
	{                                                                                \
		while (from < size) {                                                    \
			unsigned long rest = OP(a[from / BITS_PER_LONG],                 \
						     b[from / BITS_PER_LONG]) >>         \
				from % BITS_PER_LONG;                                    \
                                                                                         \
			if (rest) {                                                      \
				from += __ffs(rest);                                     \
				break;                                                   \
			}                                                                \
			from = (from / BITS_PER_LONG + 1) * BITS_PER_LONG;               \
		}                                                                        \
		return from < size ? from : size;                                        \
	}

CMWQ_FIND_NEXT(find_next_and_bit, CMWQ_OP_AND)
CMWQ_FIND_NEXT(find_next_andnot_bit, CMWQ_OP_ANDNOT)
CMWQ_FIND_NEXT(find_next_or_bit, CMWQ_OP_OR)

#define find_first_and_bit(a, b, size) find_next_and_bit((a), (b), (size), 0)
#define find_first_andnot_bit(a, b, size) find_next_andnot_bit((a), (b), (size), 0)
#define for_each_and_bit(n, a, b, size)                                \
	for ((n) = find_first_and_bit((a), (b), (size)); (n) < (size); \
		(n) = find_next_and_bit((a), (b), (size), (n) + 1))
#define for_each_andnot_bit(n, a, b, size)                                \
	for ((n) = find_first_andnot_bit((a), (b), (size)); (n) < (size); \
		(n) = find_next_andnot_bit((a), (b), (size), (n) + 1))
#define for_each_or_bit(n, a, b, size)                                  \
	for ((n) = find_next_or_bit((a), (b), (size), 0); (n) < (size); \
		(n) = find_next_or_bit((a), (b), (size), (n) + 1))

/*
 * Returns the position of the n-th bit that is set, counted from 0; `size`: there are not so many.
 */
static inline unsigned long find_nth_bit(const unsigned long *bits, unsigned long size,
	unsigned long n)
{
	unsigned long at = find_first_bit(bits, size);

	while (at < size && n--)
		at = find_next_bit(bits, size, at + 1);
	return at;
}

/* From `from` on, and then from the beginning. */
static inline unsigned long find_next_bit_wrap(const unsigned long *bits, unsigned long size,
	unsigned long from)
{
	unsigned long at = find_next_bit(bits, size, from);

	if (at < size || !from)
		return at;
	at = find_first_bit(bits, from);
	return at < from ? at : size;
}

#define for_each_clear_bit_from(n, bits, size)                            \
	for ((n) = find_next_zero_bit((bits), (size), (n)); (n) < (size); \
		(n) = find_next_zero_bit((bits), (size), (n) + 1))
/* Runs of bits that are equal: from `from` up to, and without, `to`. */
#define for_each_set_bitrange(from, to, bits, size)                                \
	for ((from) = find_first_bit((bits), (size)),                              \
	    (to) = find_next_zero_bit((bits), (size), (from) + 1);                 \
		(from) < (size); (from) = find_next_bit((bits), (size), (to) + 1), \
	    (to) = find_next_zero_bit((bits), (size), (from) + 1))
#define for_each_clear_bitrange(from, to, bits, size)                                   \
	for ((from) = find_first_zero_bit((bits), (size)),                              \
	    (to) = find_next_bit((bits), (size), (from) + 1);                           \
		(from) < (size); (from) = find_next_zero_bit((bits), (size), (to) + 1), \
	    (to) = find_next_bit((bits), (size), (from) + 1))

/* ---- words ---- */

static inline unsigned int fls_long(unsigned long word)
{
	return (unsigned int)fls64(word);
}

static inline unsigned int __ffs64(uint64_t word)
{
	return (unsigned int)__ffs(word);
}

static inline uint16_t rol16(uint16_t word, unsigned int by)
{
	return (uint16_t)((unsigned int)word << (by & 15) | (unsigned int)word >> (-by & 15));
}

static inline uint16_t ror16(uint16_t word, unsigned int by)
{
	return rol16(word, -by & 15);
}

static inline uint8_t rol8(uint8_t word, unsigned int by)
{
	return (uint8_t)((unsigned int)word << (by & 7) | (unsigned int)word >> (-by & 7));
}

static inline uint8_t ror8(uint8_t word, unsigned int by)
{
	return rol8(word, -by & 7);
}

static inline int64_t sign_extend64(uint64_t value, int sign)
{
	return (int64_t)(value << (63 - sign)) >> (63 - sign);
}

/* In one step, removes the bits of `mask` and adds those of `bits`. Returns the value before. */
#define set_mask_bits(ptr, mask, bits)                                                  \
	__extension__({                                                                 \
		__typeof__(*(ptr)) cmwq_mask = (mask), cmwq_bits = (bits);              \
		__typeof__(*(ptr)) cmwq_old = __atomic_load_n((ptr), __ATOMIC_RELAXED); \
		while (!__atomic_compare_exchange_n((ptr), &cmwq_old,                   \
			(__typeof__(*(ptr)))((cmwq_old & ~cmwq_mask) | cmwq_bits), 0,   \
			__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))                            \
			;                                                               \
		CMWQ_AFTER_FULL(__ATOMIC_SEQ_CST);                                      \
		cmwq_old;                                                               \
	})

#endif
#endif

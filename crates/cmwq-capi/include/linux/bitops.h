/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: single bits of arrays of unsigned long. What returns the bit's old value orders fully;
 * set_bit() and its like do not order; those with two underscores are not atomic. A program that brings its own defines CMWQ_NO_BITOPS.
 */
#ifndef CMWQ_LINUX_BITOPS_H
#define CMWQ_LINUX_BITOPS_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_BITOPS
#if defined(__has_include_next)
#if __has_include_next(<linux/bitops.h>)
#include_next <linux/bitops.h>
#endif
#endif
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
	return (__atomic_fetch_or(&bits[BIT_WORD(n)], BIT_MASK(n), __ATOMIC_ACQUIRE) & BIT_MASK(n)) != 0;
}

static inline void clear_bit_unlock(long n, volatile unsigned long *bits)
{
	__atomic_fetch_and(&bits[BIT_WORD(n)], ~BIT_MASK(n), __ATOMIC_RELEASE);
}

static inline void __set_bit(long n, volatile unsigned long *bits)
{
	bits[BIT_WORD(n)] |= BIT_MASK(n);
}

static inline void __clear_bit(long n, volatile unsigned long *bits)
{
	bits[BIT_WORD(n)] &= ~BIT_MASK(n);
}

static inline void __change_bit(long n, volatile unsigned long *bits)
{
	bits[BIT_WORD(n)] ^= BIT_MASK(n);
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

/* The number of the lowest and of the highest bit that is set, from 0 on; there must be one. */
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

/* The next bit from `from` on that differs from all bits of `flip`; `size`: there is none. */
static inline unsigned long cmwq_find_next_bit(const unsigned long *bits, unsigned long size, unsigned long from, unsigned long flip)
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
#define for_each_set_bit(n, bits, size) \
	for ((n) = find_first_bit((bits), (size)); (n) < (size); (n) = find_next_bit((bits), (size), (n) + 1))
#define for_each_clear_bit(n, bits, size) \
	for ((n) = find_first_zero_bit((bits), (size)); (n) < (size); (n) = find_next_zero_bit((bits), (size), (n) + 1))

static inline bool __test_and_change_bit(long n, volatile unsigned long *bits)
{
	bool was = (bits[BIT_WORD(n)] & BIT_MASK(n)) != 0;

	__change_bit(n, bits);
	return was;
}

#define __clear_bit_unlock(n, bits) clear_bit_unlock((n), (bits))
#define __assign_bit(n, bits, value) ((value) ? __set_bit((n), (bits)) : __clear_bit((n), (bits)))
#define for_each_set_bit_from(n, bits, size) \
	for ((n) = find_next_bit((bits), (size), (n)); (n) < (size); (n) = find_next_bit((bits), (size), (n) + 1))

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

#endif
#endif

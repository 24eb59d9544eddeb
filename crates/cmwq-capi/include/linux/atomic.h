/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: atomic integers,
 * exchanges and barriers. What returns a value also orders, as in the kernel; what does not, does
 * not. (In a file that includes <stdatomic.h> first, atomic_fetch_add() and its like are that
 * header's.) A program that brings its own defines CMWQ_NO_ATOMIC.
 */
#ifndef CMWQ_LINUX_ATOMIC_H
#define CMWQ_LINUX_ATOMIC_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_ATOMIC
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/atomic.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_ATOMIC

#include <linux/types.h>
#include <linux/cmwq_barrier.h>
#include <linux/cmwq_cmpxchg.h>
#include <stdbool.h>

/* These operations return nothing, or only load the value. */
#define CMWQ_ATOMIC_PLAIN(a, type, num)                                        \
	static inline num a##_read(const type *v)                              \
	{                                                                      \
		return (num)__atomic_load_n(&v->counter, __ATOMIC_RELAXED);    \
	}                                                                      \
	static inline num a##_read_acquire(const type *v)                      \
	{                                                                      \
		return (num)__atomic_load_n(&v->counter, __ATOMIC_ACQUIRE);    \
	}                                                                      \
	static inline void a##_set(type *v, num to)                            \
	{                                                                      \
		__atomic_store_n(&v->counter, to, __ATOMIC_RELAXED);           \
	}                                                                      \
	static inline void a##_set_release(type *v, num to)                    \
	{                                                                      \
		__atomic_store_n(&v->counter, to, __ATOMIC_RELEASE);           \
	}                                                                      \
	static inline void a##_add(num by, type *v)                            \
	{                                                                      \
		__atomic_fetch_add(&v->counter, by, __ATOMIC_RELAXED);         \
	}                                                                      \
	static inline void a##_sub(num by, type *v)                            \
	{                                                                      \
		__atomic_fetch_sub(&v->counter, by, __ATOMIC_RELAXED);         \
	}                                                                      \
	static inline void a##_inc(type *v)                                    \
	{                                                                      \
		a##_add(1, v);                                                 \
	}                                                                      \
	static inline void a##_dec(type *v)                                    \
	{                                                                      \
		a##_sub(1, v);                                                 \
	}                                                                      \
	static inline void a##_and(num with, type *v)                          \
	{                                                                      \
		__atomic_fetch_and(&v->counter, with, __ATOMIC_RELAXED);       \
	}                                                                      \
	static inline void a##_or(num with, type *v)                           \
	{                                                                      \
		__atomic_fetch_or(&v->counter, with, __ATOMIC_RELAXED);        \
	}                                                                      \
	static inline void a##_xor(num with, type *v)                          \
	{                                                                      \
		__atomic_fetch_xor(&v->counter, with, __ATOMIC_RELAXED);       \
	}                                                                      \
	static inline void a##_andnot(num with, type *v)                       \
	{                                                                      \
		__atomic_fetch_and(&v->counter, ~with, __ATOMIC_RELAXED);      \
	}

/* A result that does not fit wraps round, as in the kernel, which is compiled so. */
#define CMWQ_WRAPPING(num, a, by) ((num)((unsigned long long)(a) + (unsigned long long)(by)))

/*
 * What changes it and returns something, in one of the four orders. cmpxchg() returns what was
 * there: `from`, if it was exchanged.
 */
#define CMWQ_ATOMIC_RETURNING(a, type, num, suffix, order)                     \
	static inline num a##_add_return##suffix(num by, type *v)              \
	{                                                                      \
		num is = (num)__atomic_add_fetch(&v->counter, by, order);      \
		CMWQ_AFTER_FULL(order);                                        \
		return is;                                                     \
	}                                                                      \
	static inline num a##_sub_return##suffix(num by, type *v)              \
	{                                                                      \
		num is = (num)__atomic_sub_fetch(&v->counter, by, order);      \
		CMWQ_AFTER_FULL(order);                                        \
		return is;                                                     \
	}                                                                      \
	static inline num a##_inc_return##suffix(type *v)                      \
	{                                                                      \
		return a##_add_return##suffix(1, v);                           \
	}                                                                      \
	static inline num a##_dec_return##suffix(type *v)                      \
	{                                                                      \
		return a##_sub_return##suffix(1, v);                           \
	}                                                                      \
	static inline num a##_fetch_inc##suffix(type *v)                       \
	{                                                                      \
		return CMWQ_WRAPPING(num, a##_add_return##suffix(1, v), -1);   \
	}                                                                      \
	static inline num a##_fetch_dec##suffix(type *v)                       \
	{                                                                      \
		return CMWQ_WRAPPING(num, a##_sub_return##suffix(1, v), 1);    \
	}                                                                      \
	static inline num a##_fetch_andnot##suffix(num with, type *v)          \
	{                                                                      \
		num was = (num)__atomic_fetch_and(&v->counter, ~with, order);  \
		CMWQ_AFTER_FULL(order);                                        \
		return was;                                                    \
	}                                                                      \
	static inline num a##_xchg##suffix(type *v, num to)                    \
	{                                                                      \
		return (num)cmwq_xchg(&v->counter, to, order);                 \
	}                                                                      \
	static inline num a##_cmpxchg##suffix(type *v, num from, num to)       \
	{                                                                      \
		return (num)cmwq_cmpxchg(&v->counter, from, to, order);        \
	}                                                                      \
	static inline bool a##_try_cmpxchg##suffix(type *v, num *from, num to) \
	{                                                                      \
		num was = a##_cmpxchg##suffix(v, *from, to);                   \
		bool done = was == *from;                                      \
		*from = was;                                                   \
		return done;                                                   \
	}

#define CMWQ_ATOMIC_FETCHING(a, type, num, what, suffix, order)               \
	static inline num a##_fetch_##what##suffix(num with, type *v)         \
	{                                                                     \
		num was = (num)__atomic_fetch_##what(&v->counter, with, order); \
		CMWQ_AFTER_FULL(order);                                       \
		return was;                                                   \
	}
#define CMWQ_ATOMIC_FETCHING_ALL(a, type, num, suffix, order)        \
	CMWQ_ATOMIC_FETCHING(a, type, num, add, suffix, order)       \
	CMWQ_ATOMIC_FETCHING(a, type, num, sub, suffix, order)       \
	CMWQ_ATOMIC_FETCHING(a, type, num, and, suffix, order)       \
	CMWQ_ATOMIC_FETCHING(a, type, num, or, suffix, order)        \
	CMWQ_ATOMIC_FETCHING(a, type, num, xor, suffix, order)

/* These change the value and answer a question about it, or change it under a condition. */
#define CMWQ_ATOMIC_ASKING(a, type, num)                                                  \
	static inline bool a##_dec_and_test(type *v)                                      \
	{                                                                                 \
		return a##_dec_return(v) == 0;                                            \
	}                                                                                 \
	static inline bool a##_inc_and_test(type *v)                                      \
	{                                                                                 \
		return a##_inc_return(v) == 0;                                            \
	}                                                                                 \
	static inline bool a##_sub_and_test(num by, type *v)                              \
	{                                                                                 \
		return a##_sub_return(by, v) == 0;                                        \
	}                                                                                 \
	static inline bool a##_add_negative(num by, type *v)                              \
	{                                                                                 \
		return a##_add_return(by, v) < 0;                                         \
	}                                                                                 \
	static inline num a##_fetch_add_unless(type *v, num by, num unless)               \
	{                                                                                 \
		num was = a##_read(v);                                                    \
		do {                                                                      \
			if (was == unless)                                                \
				break;                                                    \
		} while (!a##_try_cmpxchg(v, &was, CMWQ_WRAPPING(num, was, by))); \
		return was;                                                               \
	}                                                                                 \
	static inline bool a##_add_unless(type *v, num by, num unless)                    \
	{                                                                                 \
		return a##_fetch_add_unless(v, by, unless) != unless;                     \
	}                                                                                 \
	static inline bool a##_inc_not_zero(type *v)                                      \
	{                                                                                 \
		return a##_add_unless(v, 1, 0);                                           \
	}                                                                                 \
	static inline bool a##_inc_unless_negative(type *v)                               \
	{                                                                                 \
		num was = a##_read(v);                                                    \
		do {                                                                      \
			if (was < 0)                                                      \
				return false;                                             \
		} while (!a##_try_cmpxchg(v, &was, CMWQ_WRAPPING(num, was, 1))); \
		return true;                                                              \
	}                                                                                 \
	static inline bool a##_dec_unless_positive(type *v)                               \
	{                                                                                 \
		num was = a##_read(v);                                                    \
		do {                                                                      \
			if (was > 0)                                                      \
				return false;                                             \
		} while (!a##_try_cmpxchg(v, &was, CMWQ_WRAPPING(num, was, -1))); \
		return true;                                                              \
	}                                                                                 \
	/* What it is less 1, though it is made so only if that is not negative. */       \
	static inline num a##_dec_if_positive(type *v)                                    \
	{                                                                                 \
		num was = a##_read(v);                                                    \
		do {                                                                      \
			if (was < 1)                                                      \
				break;                                                    \
		} while (!a##_try_cmpxchg(v, &was, CMWQ_WRAPPING(num, was, -1))); \
		return CMWQ_WRAPPING(num, was, -1); \
	}

#define CMWQ_ATOMIC(a, type, num)                                                \
	CMWQ_ATOMIC_PLAIN(a, type, num)                                          \
	CMWQ_ATOMIC_RETURNING(a, type, num, , __ATOMIC_SEQ_CST)                  \
	CMWQ_ATOMIC_RETURNING(a, type, num, _relaxed, __ATOMIC_RELAXED)          \
	CMWQ_ATOMIC_RETURNING(a, type, num, _acquire, __ATOMIC_ACQUIRE)          \
	CMWQ_ATOMIC_RETURNING(a, type, num, _release, __ATOMIC_RELEASE)          \
	CMWQ_ATOMIC_FETCHING_ALL(a, type, num, _relaxed, __ATOMIC_RELAXED)       \
	CMWQ_ATOMIC_FETCHING_ALL(a, type, num, _acquire, __ATOMIC_ACQUIRE)       \
	CMWQ_ATOMIC_FETCHING_ALL(a, type, num, _release, __ATOMIC_RELEASE)       \
	CMWQ_ATOMIC_ASKING(a, type, num)

CMWQ_ATOMIC(atomic, atomic_t, int)
CMWQ_ATOMIC(atomic64, atomic64_t, long long)
CMWQ_ATOMIC(atomic_long, atomic_long_t, long)
CMWQ_ATOMIC_FETCHING_ALL(atomic64, atomic64_t, long long, , __ATOMIC_SEQ_CST)
CMWQ_ATOMIC_FETCHING_ALL(atomic_long, atomic_long_t, long, , __ATOMIC_SEQ_CST)
/* In a file that includes <stdatomic.h> before, these names are that header's. */
#ifndef atomic_fetch_add
CMWQ_ATOMIC_FETCHING_ALL(atomic, atomic_t, int, , __ATOMIC_SEQ_CST)
#endif

/* The caller waits awake until a condition on the value, called VAL, holds. Returns the value. */
#define cmwq_cond_load(ptr, condition, order)                                   \
	__extension__({                                                         \
		__typeof__(*(ptr)) VAL;                                         \
		while (VAL = __atomic_load_n((ptr), order), !(condition))       \
			cpu_relax();                                            \
		VAL;                                                            \
	})
#define smp_cond_load_relaxed(ptr, condition) cmwq_cond_load(ptr, condition, __ATOMIC_RELAXED)
#define smp_cond_load_acquire(ptr, condition) cmwq_cond_load(ptr, condition, __ATOMIC_ACQUIRE)
#define atomic_cond_read_relaxed(v, condition) smp_cond_load_relaxed(&(v)->counter, condition)
#define atomic_cond_read_acquire(v, condition) smp_cond_load_acquire(&(v)->counter, condition)

#endif
#endif

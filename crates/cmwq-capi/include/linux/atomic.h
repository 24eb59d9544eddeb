/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: atomic integers. What returns a value also orders, as in the kernel; what does not, does
 * not. (atomic_fetch_add() and its like are <stdatomic.h>'s.) A program that brings its own defines CMWQ_NO_ATOMIC.
 */
#ifndef CMWQ_LINUX_ATOMIC_H
#define CMWQ_LINUX_ATOMIC_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_ATOMIC
#if defined(__has_include_next)
#if __has_include_next(<linux/atomic.h>)
#include_next <linux/atomic.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_ATOMIC

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	long long counter;
} atomic64_t;

#define ATOMIC_INIT(value) {value}
#define ATOMIC64_INIT(value) {value}

static inline int atomic_read(const atomic_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);
}

static inline void atomic_set(atomic_t *v, int to)
{
	__atomic_store_n(&v->counter, to, __ATOMIC_RELAXED);
}

static inline void atomic_add(int by, atomic_t *v)
{
	__atomic_fetch_add(&v->counter, by, __ATOMIC_RELAXED);
}

static inline void atomic_sub(int by, atomic_t *v)
{
	__atomic_fetch_sub(&v->counter, by, __ATOMIC_RELAXED);
}

static inline void atomic_inc(atomic_t *v)
{
	atomic_add(1, v);
}

static inline void atomic_dec(atomic_t *v)
{
	atomic_sub(1, v);
}

static inline int atomic_add_return(int by, atomic_t *v)
{
	return __atomic_add_fetch(&v->counter, by, __ATOMIC_SEQ_CST);
}

static inline int atomic_sub_return(int by, atomic_t *v)
{
	return __atomic_sub_fetch(&v->counter, by, __ATOMIC_SEQ_CST);
}

static inline int atomic_inc_return(atomic_t *v)
{
	return atomic_add_return(1, v);
}

static inline int atomic_dec_return(atomic_t *v)
{
	return atomic_sub_return(1, v);
}

static inline int atomic_dec_and_test(atomic_t *v)
{
	return atomic_dec_return(v) == 0;
}

static inline int atomic_xchg(atomic_t *v, int to)
{
	return __atomic_exchange_n(&v->counter, to, __ATOMIC_SEQ_CST);
}

/* What was there: `from`, if it was exchanged. */
static inline int atomic_cmpxchg(atomic_t *v, int from, int to)
{
	__atomic_compare_exchange_n(&v->counter, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return from;
}

static inline long long atomic64_read(const atomic64_t *v)
{
	return __atomic_load_n(&v->counter, __ATOMIC_RELAXED);
}

static inline void atomic64_set(atomic64_t *v, long long to)
{
	__atomic_store_n(&v->counter, to, __ATOMIC_RELAXED);
}

static inline void atomic64_add(long long by, atomic64_t *v)
{
	__atomic_fetch_add(&v->counter, by, __ATOMIC_RELAXED);
}

static inline void atomic64_sub(long long by, atomic64_t *v)
{
	__atomic_fetch_sub(&v->counter, by, __ATOMIC_RELAXED);
}

static inline void atomic64_inc(atomic64_t *v)
{
	atomic64_add(1, v);
}

static inline void atomic64_dec(atomic64_t *v)
{
	atomic64_sub(1, v);
}

static inline long long atomic64_add_return(long long by, atomic64_t *v)
{
	return __atomic_add_fetch(&v->counter, by, __ATOMIC_SEQ_CST);
}

static inline long long atomic64_sub_return(long long by, atomic64_t *v)
{
	return __atomic_sub_fetch(&v->counter, by, __ATOMIC_SEQ_CST);
}

static inline long long atomic64_inc_return(atomic64_t *v)
{
	return atomic64_add_return(1, v);
}

static inline long long atomic64_dec_return(atomic64_t *v)
{
	return atomic64_sub_return(1, v);
}

static inline int atomic64_dec_and_test(atomic64_t *v)
{
	return atomic64_dec_return(v) == 0;
}

static inline long long atomic64_xchg(atomic64_t *v, long long to)
{
	return __atomic_exchange_n(&v->counter, to, __ATOMIC_SEQ_CST);
}

/* What was there: `from`, if it was exchanged. */
static inline long long atomic64_cmpxchg(atomic64_t *v, long long from, long long to)
{
	__atomic_compare_exchange_n(&v->counter, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return from;
}

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: reference counts that
 * stick to a value far away, with a warning, instead of overflowing or coming back from 0. A
 * program that brings its own defines CMWQ_NO_REFCOUNT.
 */
#ifndef CMWQ_LINUX_REFCOUNT_H
#define CMWQ_LINUX_REFCOUNT_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_REFCOUNT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/refcount.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_REFCOUNT

#include <limits.h>
#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>

typedef struct refcount_struct {
	atomic_t refs;
} refcount_t;

#define REFCOUNT_INIT(n) {ATOMIC_INIT(n)}
#define REFCOUNT_MAX INT_MAX
#define REFCOUNT_SATURATED (INT_MIN / 2)

static inline void cmwq_refcount_saturate(refcount_t *r)
{
	atomic_set(&r->refs, REFCOUNT_SATURATED);
	WARN_ON_ONCE(1);
}

static inline void refcount_set(refcount_t *r, int n)
{
	atomic_set(&r->refs, n);
}

static inline unsigned int refcount_read(const refcount_t *r)
{
	return (unsigned int)atomic_read(&r->refs);
}

static inline CMWQ_MUST_CHECK bool refcount_add_not_zero(int by, refcount_t *r)
{
	int was = atomic_read(&r->refs);

	do {
		if (was == 0)
			return false;
	} while (!atomic_try_cmpxchg_relaxed(&r->refs, &was,
		(int)((unsigned int)was + (unsigned int)by)));
	if (was < 0 || was > INT_MAX - by)
		cmwq_refcount_saturate(r);
	return true;
}

static inline CMWQ_MUST_CHECK bool refcount_inc_not_zero(refcount_t *r)
{
	return refcount_add_not_zero(1, r);
}

static inline void refcount_add(int by, refcount_t *r)
{
	int was = atomic_fetch_inc_relaxed(&r->refs);

	if (by != 1)
		atomic_add(by - 1, &r->refs);
	if (was <= 0 || was > INT_MAX - by)
		cmwq_refcount_saturate(r);
}

static inline void refcount_inc(refcount_t *r)
{
	refcount_add(1, r);
}

static inline CMWQ_MUST_CHECK bool refcount_sub_and_test(int by, refcount_t *r)
{
	/*
	 * What other threads did before they gave their references back comes before what the last
	 * thread does. This is one operation, since ThreadSanitizer sees no fences.
	 */
	int was = atomic_sub_return(by, &r->refs) + by;

	if (was == by && was > 0)
		return true;
	if (was < by)
		cmwq_refcount_saturate(r);
	return false;
}

static inline CMWQ_MUST_CHECK bool refcount_dec_and_test(refcount_t *r)
{
	return refcount_sub_and_test(1, r);
}

static inline void refcount_dec(refcount_t *r)
{
	if (atomic_sub_return_release(1, &r->refs) <= 0)
		cmwq_refcount_saturate(r);
}

static inline CMWQ_MUST_CHECK bool refcount_dec_if_one(refcount_t *r)
{
	int one = 1;

	return atomic_try_cmpxchg(&r->refs, &one, 0);
}

static inline CMWQ_MUST_CHECK bool refcount_dec_not_one(refcount_t *r)
{
	int was = atomic_read(&r->refs);

	do {
		if (was == 1)
			return false;
		if (was < 1)
			return true;
	} while (!atomic_try_cmpxchg_release(&r->refs, &was, was - 1));
	return true;
}

/* true: the counter is 0 now and the caller holds the lock. */
static inline CMWQ_MUST_CHECK bool refcount_dec_and_mutex_lock(refcount_t *r, struct mutex *lock)
{
	if (refcount_dec_not_one(r))
		return false;
	mutex_lock(lock);
	if (refcount_dec_and_test(r))
		return true;
	mutex_unlock(lock);
	return false;
}

static inline CMWQ_MUST_CHECK bool refcount_dec_and_lock(refcount_t *r, spinlock_t *lock)
{
	if (refcount_dec_not_one(r))
		return false;
	spin_lock(lock);
	if (refcount_dec_and_test(r))
		return true;
	spin_unlock(lock);
	return false;
}

#define refcount_dec_and_lock_irqsave(r, lock, flags) \
	(*(flags) = 0, refcount_dec_and_lock((r), (lock)))

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: a reference count with a
 * function for its end. A program that brings its own defines CMWQ_NO_REFCOUNT.
 */
#ifndef CMWQ_LINUX_KREF_H
#define CMWQ_LINUX_KREF_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_REFCOUNT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/kref.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_REFCOUNT

#include <linux/refcount.h>

struct kref {
	refcount_t refcount;
};

#define KREF_INIT(n) {REFCOUNT_INIT(n)}

static inline void kref_init(struct kref *kref)
{
	refcount_set(&kref->refcount, 1);
}

static inline unsigned int kref_read(const struct kref *kref)
{
	return refcount_read(&kref->refcount);
}

static inline void kref_get(struct kref *kref)
{
	refcount_inc(&kref->refcount);
}

static inline CMWQ_MUST_CHECK int kref_get_unless_zero(struct kref *kref)
{
	return refcount_inc_not_zero(&kref->refcount);
}

/* 1: that was the last, and `release` was called. */
static inline int kref_put(struct kref *kref, void (*release)(struct kref *kref))
{
	if (!refcount_dec_and_test(&kref->refcount))
		return 0;
	release(kref);
	return 1;
}

/* The same; `release` is called with the lock held and gives it back. */
static inline int kref_put_mutex(struct kref *kref, void (*release)(struct kref *kref),
	struct mutex *lock)
{
	if (!refcount_dec_and_mutex_lock(&kref->refcount, lock))
		return 0;
	release(kref);
	return 1;
}

static inline int kref_put_lock(struct kref *kref, void (*release)(struct kref *kref),
	spinlock_t *lock)
{
	if (!refcount_dec_and_lock(&kref->refcount, lock))
		return 0;
	release(kref);
	return 1;
}

#endif
#endif

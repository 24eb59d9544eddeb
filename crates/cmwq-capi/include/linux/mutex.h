/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: a POSIX mutex. Nothing
 * interrupts a wait. A program that brings its own defines CMWQ_NO_MUTEX.
 */
#ifndef CMWQ_LINUX_MUTEX_H
#define CMWQ_LINUX_MUTEX_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_MUTEX
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/mutex.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_MUTEX

#include <pthread.h>
#include <stdbool.h>

struct mutex {
	pthread_mutex_t cmwq_mutex;
};

#define __MUTEX_INITIALIZER(name) {PTHREAD_MUTEX_INITIALIZER}
#define DEFINE_MUTEX(name) struct mutex name = __MUTEX_INITIALIZER(name)

static inline void mutex_init(struct mutex *lock)
{
	pthread_mutex_init(&lock->cmwq_mutex, NULL);
}

static inline void mutex_destroy(struct mutex *lock)
{
	pthread_mutex_destroy(&lock->cmwq_mutex);
}

static inline void mutex_lock(struct mutex *lock)
{
	pthread_mutex_lock(&lock->cmwq_mutex);
}

static inline CMWQ_MUST_CHECK int mutex_lock_interruptible(struct mutex *lock)
{
	mutex_lock(lock);
	return 0;
}

static inline CMWQ_MUST_CHECK int mutex_lock_killable(struct mutex *lock)
{
	mutex_lock(lock);
	return 0;
}

/* 1: it is locked now. */
static inline CMWQ_MUST_CHECK int mutex_trylock(struct mutex *lock)
{
	return pthread_mutex_trylock(&lock->cmwq_mutex) == 0;
}

static inline void mutex_unlock(struct mutex *lock)
{
	pthread_mutex_unlock(&lock->cmwq_mutex);
}

#define mutex_lock_nested(lock, subclass) mutex_lock(lock)
#define mutex_lock_interruptible_nested(lock, subclass) mutex_lock_interruptible(lock)
#define mutex_lock_killable_nested(lock, subclass) mutex_lock_killable(lock)
#define mutex_lock_nest_lock(lock, nest) mutex_lock(lock)
#define mutex_lock_io(lock) mutex_lock(lock)

/* A hint: the holder may release the lock at any time. */
static inline bool mutex_is_locked(struct mutex *lock)
{
	if (!mutex_trylock(lock))
		return true;
	mutex_unlock(lock);
	return false;
}

#include <linux/atomic.h>
#include <linux/cleanup.h>

#ifndef CMWQ_NO_ATOMIC
/* Decrements the counter. Returns true, with the lock held, if the counter is 0 then. */
static inline bool atomic_dec_and_mutex_lock(atomic_t *v, struct mutex *lock)
{
	if (atomic_add_unless(v, -1, 1))
		return false;
	mutex_lock(lock);
	if (atomic_dec_and_test(v))
		return true;
	mutex_unlock(lock);
	return false;
}
#endif
#ifdef DEFINE_GUARD
DEFINE_GUARD(mutex, struct mutex *, mutex_lock(_T), mutex_unlock(_T));
#endif

#endif
#endif

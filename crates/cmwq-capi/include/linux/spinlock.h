/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: a POSIX mutex, since the
 * lock's holder may lose its CPU. There are no interrupts to keep away: the variants are all the
 * same. A program that brings its own defines CMWQ_NO_SPINLOCK.
 */
#ifndef CMWQ_LINUX_SPINLOCK_H
#define CMWQ_LINUX_SPINLOCK_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SPINLOCK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/spinlock.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SPINLOCK

#include <linux/bottom_half.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <pthread.h>

typedef struct spinlock {
	pthread_mutex_t cmwq_mutex;
} spinlock_t;

#define __SPIN_LOCK_UNLOCKED(name) {PTHREAD_MUTEX_INITIALIZER}
#define DEFINE_SPINLOCK(name) spinlock_t name = __SPIN_LOCK_UNLOCKED(name)

static inline void spin_lock_init(spinlock_t *lock)
{
	pthread_mutex_init(&lock->cmwq_mutex, NULL);
}

static inline void spin_lock(spinlock_t *lock)
{
	pthread_mutex_lock(&lock->cmwq_mutex);
}

/* 1: it is locked now. */
static inline CMWQ_MUST_CHECK int spin_trylock(spinlock_t *lock)
{
	return pthread_mutex_trylock(&lock->cmwq_mutex) == 0;
}

static inline void spin_unlock(spinlock_t *lock)
{
	pthread_mutex_unlock(&lock->cmwq_mutex);
}

#define spin_lock_bh(lock) spin_lock(lock)
#define spin_unlock_bh(lock) spin_unlock(lock)
#define spin_lock_irq(lock) spin_lock(lock)
#define spin_unlock_irq(lock) spin_unlock(lock)
#define spin_lock_irqsave(lock, flags) \
	do {                           \
		(flags) = 0;           \
		spin_lock(lock);       \
	} while (0)
#define spin_unlock_irqrestore(lock, flags) \
	do {                                \
		(void)(flags);              \
		spin_unlock(lock);          \
	} while (0)
#ifndef lockdep_assert_held
#define lockdep_assert_held(lock) ((void)(lock))
#endif
#define spin_trylock_bh(lock) spin_trylock(lock)
#define spin_trylock_irq(lock) spin_trylock(lock)
#define spin_trylock_irqsave(lock, flags) ((flags) = 0, spin_trylock(lock))
#define spin_lock_nested(lock, subclass) spin_lock(lock)
#define spin_lock_bh_nested(lock, subclass) spin_lock_bh(lock)
#define spin_lock_irqsave_nested(lock, flags, subclass) spin_lock_irqsave(lock, flags)
#define spin_is_contended(lock) ((void)(lock), 0)

/* A hint: the holder may release the lock at any time. */
static inline int spin_is_locked(spinlock_t *lock)
{
	if (!spin_trylock(lock))
		return 1;
	spin_unlock(lock);
	return 0;
}

#define assert_spin_locked(lock) ((void)(lock))

/* The same kind here. */
typedef spinlock_t raw_spinlock_t;
#define __RAW_SPIN_LOCK_UNLOCKED(name) __SPIN_LOCK_UNLOCKED(name)
#define DEFINE_RAW_SPINLOCK(name) DEFINE_SPINLOCK(name)
#define raw_spin_lock_init(lock) spin_lock_init(lock)
#define raw_spin_lock(lock) spin_lock(lock)
#define raw_spin_trylock(lock) spin_trylock(lock)
#define raw_spin_unlock(lock) spin_unlock(lock)
#define raw_spin_lock_irq(lock) spin_lock_irq(lock)
#define raw_spin_unlock_irq(lock) spin_unlock_irq(lock)
#define raw_spin_lock_irqsave(lock, flags) spin_lock_irqsave((lock), (flags))
#define raw_spin_lock_bh(lock) spin_lock_bh(lock)
#define raw_spin_unlock_bh(lock) spin_unlock_bh(lock)
#define raw_spin_lock_nested(lock, subclass) spin_lock(lock)
#define raw_spin_unlock_irqrestore(lock, flags) spin_unlock_irqrestore((lock), (flags))

#include <linux/atomic.h>
#include <linux/rwlock.h>
#include <linux/cleanup.h>

#ifndef CMWQ_NO_ATOMIC
/* Decrements the counter. Returns true, with the lock held, if the counter is 0 then. */
static inline bool atomic_dec_and_lock(atomic_t *v, spinlock_t *lock)
{
	if (atomic_add_unless(v, -1, 1))
		return false;
	spin_lock(lock);
	if (atomic_dec_and_test(v))
		return true;
	spin_unlock(lock);
	return false;
}

#define atomic_dec_and_lock_irqsave(v, lock, flags) ((flags) = 0, atomic_dec_and_lock((v), (lock)))
#endif
#ifdef DEFINE_GUARD
DEFINE_GUARD(spinlock, spinlock_t *, spin_lock(_T), spin_unlock(_T));
#define cmwq_guard_spinlock_bh cmwq_guard_spinlock
#define cmwq_guard_spinlock_irq cmwq_guard_spinlock
#define cmwq_guard_spinlock_irqsave cmwq_guard_spinlock
#define cmwq_guard_raw_spinlock cmwq_guard_spinlock
#define cmwq_guard_raw_spinlock_irq cmwq_guard_spinlock
#define cmwq_guard_raw_spinlock_irqsave cmwq_guard_spinlock
DEFINE_GUARD(read_lock, rwlock_t *, read_lock(_T), read_unlock(_T));
DEFINE_GUARD(write_lock, rwlock_t *, write_lock(_T), write_unlock(_T));
#endif

#endif
#endif

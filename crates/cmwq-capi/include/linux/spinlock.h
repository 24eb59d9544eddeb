/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: a POSIX mutex, since whoever holds the lock may lose its CPU. There are no interrupts to
 * keep away: the variants are all the same. A program that brings its own defines CMWQ_NO_SPINLOCK.
 */
#ifndef CMWQ_LINUX_SPINLOCK_H
#define CMWQ_LINUX_SPINLOCK_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SPINLOCK
#if defined(__has_include_next)
#if __has_include_next(<linux/spinlock.h>)
#include_next <linux/spinlock.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_SPINLOCK

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
static inline int spin_trylock(spinlock_t *lock)
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

#endif
#endif

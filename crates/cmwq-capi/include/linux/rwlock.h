/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: locks that many readers
 * or one writer hold; a reader may read again. Interrupts do not exist. A program that brings its
 * own defines CMWQ_NO_SPINLOCK.
 */
#ifndef CMWQ_LINUX_RWLOCK_H
#define CMWQ_LINUX_RWLOCK_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SPINLOCK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/rwlock.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SPINLOCK

#include <pthread.h>
#include <stdbool.h>

typedef struct {
	pthread_mutex_t cmwq_lock;
	pthread_cond_t cmwq_changed;
	unsigned int cmwq_readers;
	bool cmwq_written;
} rwlock_t;

#define __RW_LOCK_UNLOCKED(name) {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false}
#define DEFINE_RWLOCK(name) rwlock_t name = __RW_LOCK_UNLOCKED(name)

static inline void rwlock_init(rwlock_t *lock)
{
	pthread_mutex_init(&lock->cmwq_lock, NULL);
	pthread_cond_init(&lock->cmwq_changed, NULL);
	lock->cmwq_readers = 0;
	lock->cmwq_written = false;
}

/* 1: it is locked. */
static inline int cmwq_rwlock(rwlock_t *lock, bool write, bool wait)
{
	bool free;

	pthread_mutex_lock(&lock->cmwq_lock);
	while (!(free = !lock->cmwq_written && !(write && lock->cmwq_readers)) && wait)
		cmwq_cond_wait(&lock->cmwq_changed, &lock->cmwq_lock);
	if (free && write)
		lock->cmwq_written = true;
	else if (free)
		lock->cmwq_readers++;
	pthread_mutex_unlock(&lock->cmwq_lock);
	return free;
}

static inline void read_lock(rwlock_t *lock)
{
	cmwq_rwlock(lock, false, true);
}

static inline void write_lock(rwlock_t *lock)
{
	cmwq_rwlock(lock, true, true);
}

static inline CMWQ_MUST_CHECK int read_trylock(rwlock_t *lock)
{
	return cmwq_rwlock(lock, false, false);
}

static inline CMWQ_MUST_CHECK int write_trylock(rwlock_t *lock)
{
	return cmwq_rwlock(lock, true, false);
}

static inline void read_unlock(rwlock_t *lock)
{
	pthread_mutex_lock(&lock->cmwq_lock);
	if (--lock->cmwq_readers == 0)
		pthread_cond_broadcast(&lock->cmwq_changed);
	pthread_mutex_unlock(&lock->cmwq_lock);
}

static inline void write_unlock(rwlock_t *lock)
{
	pthread_mutex_lock(&lock->cmwq_lock);
	lock->cmwq_written = false;
	pthread_cond_broadcast(&lock->cmwq_changed);
	pthread_mutex_unlock(&lock->cmwq_lock);
}

#define read_lock_bh(lock) read_lock(lock)
#define read_unlock_bh(lock) read_unlock(lock)
#define write_lock_bh(lock) write_lock(lock)
#define write_unlock_bh(lock) write_unlock(lock)
#define read_lock_irq(lock) read_lock(lock)
#define read_unlock_irq(lock) read_unlock(lock)
#define write_lock_irq(lock) write_lock(lock)
#define write_unlock_irq(lock) write_unlock(lock)
#define read_lock_irqsave(lock, flags) ((flags) = 0, read_lock(lock))
#define read_unlock_irqrestore(lock, flags) ((void)(flags), read_unlock(lock))
#define write_lock_irqsave(lock, flags) ((flags) = 0, write_lock(lock))
#define write_unlock_irqrestore(lock, flags) ((void)(flags), write_unlock(lock))

#endif
#endif

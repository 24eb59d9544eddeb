/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: a counting semaphore.
 * Nothing interrupts a wait. A program that brings its own defines CMWQ_NO_SEMAPHORE or
 * CMWQ_NO_WAIT.
 */
#ifndef CMWQ_LINUX_SEMAPHORE_H
#define CMWQ_LINUX_SEMAPHORE_H

#include <linux/cmwq_base.h>
#if defined(CMWQ_NO_SEMAPHORE) || defined(CMWQ_NO_WAIT)
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/semaphore.h"
#include <linux/cmwq_next.h>
#else

#include <errno.h>
#include <linux/wait.h>

struct semaphore {
	unsigned int count;
	struct wait_queue_head cmwq_waiters;
};

#define __SEMAPHORE_INITIALIZER(name, n) {(n), __WAIT_QUEUE_HEAD_INITIALIZER((name).cmwq_waiters)}
#define DEFINE_SEMAPHORE(name, n) struct semaphore name = __SEMAPHORE_INITIALIZER(name, n)

static inline void sema_init(struct semaphore *sem, int count)
{
	sem->count = (unsigned int)count;
	init_waitqueue_head(&sem->cmwq_waiters);
}

/* 0: taken. 1: there is none. (So it is in the kernel.) */
static inline CMWQ_MUST_CHECK int down_trylock(struct semaphore *sem)
{
	unsigned int count = __atomic_load_n(&sem->count, __ATOMIC_RELAXED);

	while (count)
		if (__atomic_compare_exchange_n(&sem->count, &count, count - 1, true,
			    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return 0;
	return 1;
}

/*
 * Wakes one of the threads that wait. If another thread has been faster, that one gives the
 * semaphore back some time.
 */
static inline void down(struct semaphore *sem)
{
	if (down_trylock(sem))
		cmwq_wait_event(sem->cmwq_waiters, !down_trylock(sem), prepare_to_wait_exclusive,
			TASK_UNINTERRUPTIBLE, schedule());
}

static inline CMWQ_MUST_CHECK int down_interruptible(struct semaphore *sem)
{
	down(sem);
	return 0;
}

static inline CMWQ_MUST_CHECK int down_killable(struct semaphore *sem)
{
	down(sem);
	return 0;
}

/* -ETIME: no other thread has given it back within so many jiffies. */
static inline CMWQ_MUST_CHECK int down_timeout(struct semaphore *sem, long timeout)
{
	bool taken = !down_trylock(sem);

	if (!taken)
		cmwq_wait_event(sem->cmwq_waiters, (taken = !down_trylock(sem)) || !timeout,
			prepare_to_wait_exclusive, TASK_UNINTERRUPTIBLE,
			timeout = schedule_timeout(timeout));
	/* Another thread may have woken this one while it gave up; then it wakes the next one. */
	if (!taken)
		wake_up(&sem->cmwq_waiters);
	return taken ? 0 : -ETIME;
}

static inline void up(struct semaphore *sem)
{
	__atomic_fetch_add(&sem->count, 1, __ATOMIC_SEQ_CST);
	wake_up(&sem->cmwq_waiters);
}

#endif
#endif

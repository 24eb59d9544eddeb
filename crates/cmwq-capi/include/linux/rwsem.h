/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: a lock for many readers
 * or one writer; a reader does not pass a writer that waits. Any thread may give it back. A program
 * that brings its own defines CMWQ_NO_RWSEM.
 */
#ifndef CMWQ_LINUX_RWSEM_H
#define CMWQ_LINUX_RWSEM_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_RWSEM
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/rwsem.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_RWSEM

#include <linux/cmwq_compiler.h>
#include <pthread.h>
#include <stdbool.h>

struct rw_semaphore {
	pthread_mutex_t cmwq_lock;
	pthread_cond_t cmwq_changed;
	int cmwq_readers, cmwq_waiting;
	bool cmwq_written;
};

#define __RWSEM_INITIALIZER(name) {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, false}
#define DECLARE_RWSEM(name) struct rw_semaphore name = __RWSEM_INITIALIZER(name)

static inline void init_rwsem(struct rw_semaphore *sem)
{
	pthread_mutex_init(&sem->cmwq_lock, NULL);
	pthread_cond_init(&sem->cmwq_changed, NULL);
	sem->cmwq_readers = 0;
	sem->cmwq_waiting = 0;
	sem->cmwq_written = false;
}

static inline void down_read(struct rw_semaphore *sem)
{
	pthread_mutex_lock(&sem->cmwq_lock);
	while (sem->cmwq_written || sem->cmwq_waiting)
		cmwq_cond_wait(&sem->cmwq_changed, &sem->cmwq_lock);
	sem->cmwq_readers++;
	pthread_mutex_unlock(&sem->cmwq_lock);
}

static inline CMWQ_MUST_CHECK int down_read_trylock(struct rw_semaphore *sem)
{
	bool free;

	pthread_mutex_lock(&sem->cmwq_lock);
	free = !sem->cmwq_written && !sem->cmwq_waiting;
	sem->cmwq_readers += free;
	pthread_mutex_unlock(&sem->cmwq_lock);
	return free;
}

static inline void up_read(struct rw_semaphore *sem)
{
	pthread_mutex_lock(&sem->cmwq_lock);
	if (--sem->cmwq_readers == 0)
		pthread_cond_broadcast(&sem->cmwq_changed);
	pthread_mutex_unlock(&sem->cmwq_lock);
}

static inline void down_write(struct rw_semaphore *sem)
{
	pthread_mutex_lock(&sem->cmwq_lock);
	sem->cmwq_waiting++;
	while (sem->cmwq_written || sem->cmwq_readers)
		cmwq_cond_wait(&sem->cmwq_changed, &sem->cmwq_lock);
	sem->cmwq_waiting--;
	sem->cmwq_written = true;
	pthread_mutex_unlock(&sem->cmwq_lock);
}

static inline CMWQ_MUST_CHECK int down_write_trylock(struct rw_semaphore *sem)
{
	bool free;

	pthread_mutex_lock(&sem->cmwq_lock);
	free = !sem->cmwq_written && !sem->cmwq_readers;
	if (free)
		sem->cmwq_written = true;
	pthread_mutex_unlock(&sem->cmwq_lock);
	return free;
}

static inline void up_write(struct rw_semaphore *sem)
{
	pthread_mutex_lock(&sem->cmwq_lock);
	sem->cmwq_written = false;
	pthread_cond_broadcast(&sem->cmwq_changed);
	pthread_mutex_unlock(&sem->cmwq_lock);
}

/* The writer becomes a reader, and no other writer comes in between. */
static inline void downgrade_write(struct rw_semaphore *sem)
{
	pthread_mutex_lock(&sem->cmwq_lock);
	sem->cmwq_written = false;
	sem->cmwq_readers++;
	pthread_cond_broadcast(&sem->cmwq_changed);
	pthread_mutex_unlock(&sem->cmwq_lock);
}

static inline int rwsem_is_locked(struct rw_semaphore *sem)
{
	bool locked;

	pthread_mutex_lock(&sem->cmwq_lock);
	locked = sem->cmwq_written || sem->cmwq_readers;
	pthread_mutex_unlock(&sem->cmwq_lock);
	return locked;
}

static inline CMWQ_MUST_CHECK int down_read_killable(struct rw_semaphore *sem)
{
	down_read(sem);
	return 0;
}

static inline CMWQ_MUST_CHECK int down_write_killable(struct rw_semaphore *sem)
{
	down_write(sem);
	return 0;
}

#define down_read_interruptible(sem) down_read_killable(sem)
#define down_read_nested(sem, subclass) down_read(sem)
#define down_write_nested(sem, subclass) down_write(sem)

#define down_read_killable_nested(sem, subclass) down_read_killable(sem)
#define down_write_killable_nested(sem, subclass) down_write_killable(sem)
#define down_write_nest_lock(sem, lock) down_write(sem)
/* It has no owner. */
#define down_read_non_owner(sem) down_read(sem)
#define up_read_non_owner(sem) up_read(sem)
#define rwsem_assert_held(sem) ((void)(sem))
#define rwsem_assert_held_write(sem) ((void)(sem))

/* Whether a writer waits. */
static inline int rwsem_is_contended(struct rw_semaphore *sem)
{
	int waiting;

	pthread_mutex_lock(&sem->cmwq_lock);
	waiting = sem->cmwq_waiting;
	pthread_mutex_unlock(&sem->cmwq_lock);
	return waiting != 0;
}

#include <linux/cleanup.h>
#ifdef DEFINE_GUARD
DEFINE_GUARD(rwsem_read, struct rw_semaphore *, down_read(_T), up_read(_T));
DEFINE_GUARD(rwsem_write, struct rw_semaphore *, down_write(_T), up_write(_T));
#endif

#endif
#endif

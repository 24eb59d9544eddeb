/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: waiting until a bit is
 * clear, or until something about a variable is so. Waiters and those that wake them meet if they
 * are of one program or shared object. Nothing interrupts a wait. A program that brings its own
 * defines CMWQ_NO_WAIT or CMWQ_NO_BITOPS.
 */
#ifndef CMWQ_LINUX_WAIT_BIT_H
#define CMWQ_LINUX_WAIT_BIT_H

#include <linux/cmwq_base.h>
#if defined(CMWQ_NO_WAIT) || defined(CMWQ_NO_BITOPS)
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/wait_bit.h"
#include <linux/cmwq_next.h>
#else

#include <linux/bitops.h>
#include <linux/jiffies.h>
#include <linux/wait.h>
#include <errno.h>

struct cmwq_bit_waiter {
	struct cmwq_bit_waiter *next;
	struct task_struct *task;
	const volatile void *word;
	int bit;
	bool linked;
};

struct cmwq_bit_bucket {
	pthread_mutex_t lock;
	struct cmwq_bit_waiter *first;
};

enum { CMWQ_BIT_BUCKETS = 64, CMWQ_NO_BIT = -1 };

/* All files of a program share one table; zeros are locks that are free. */
#ifdef __cplusplus
extern "C" {
#endif
__attribute__((__weak__)) struct cmwq_bit_bucket cmwq_bit_buckets[CMWQ_BIT_BUCKETS];
#ifdef __cplusplus
}
#endif

static inline struct cmwq_bit_bucket *cmwq_bit_bucket_of(const volatile void *word)
{
	return &cmwq_bit_buckets[((uintptr_t)word >> 3) * 11400714819323198485ull >> 58];
}

/*
 * The caller sets its state before it looks at the bit, so a waker that comes in between finds it.
 */
static inline void cmwq_bit_prepare(struct cmwq_bit_waiter *waiter)
{
	struct cmwq_bit_bucket *bucket = cmwq_bit_bucket_of(waiter->word);

	pthread_mutex_lock(&bucket->lock);
	if (!waiter->linked) {
		waiter->next = bucket->first;
		bucket->first = waiter;
		waiter->linked = true;
	}
	set_current_state(TASK_UNINTERRUPTIBLE);
	pthread_mutex_unlock(&bucket->lock);
}

static inline void cmwq_bit_finish(struct cmwq_bit_waiter *waiter)
{
	struct cmwq_bit_bucket *bucket = cmwq_bit_bucket_of(waiter->word);
	struct cmwq_bit_waiter **at = &bucket->first;

	__set_current_state(TASK_RUNNING);
	pthread_mutex_lock(&bucket->lock);
	while (*at != waiter)
		at = &(*at)->next;
	*at = waiter->next;
	pthread_mutex_unlock(&bucket->lock);
}

static inline void cmwq_bit_wake(const volatile void *word, int bit)
{
	struct cmwq_bit_bucket *bucket = cmwq_bit_bucket_of(word);
	struct cmwq_bit_waiter *waiter;

	pthread_mutex_lock(&bucket->lock);
	for (waiter = bucket->first; waiter; waiter = waiter->next)
		if (waiter->word == word && waiter->bit == bit)
			wake_up_process(waiter->task);
	pthread_mutex_unlock(&bucket->lock);
}

#define cmwq_bit_wait(word_, bit_, condition, sleep)                                              \
	do {                                                                                      \
		struct cmwq_bit_waiter cmwq_waiter = {NULL, current, (word_), (bit_), false};     \
		for (;;) {                                                                        \
			cmwq_bit_prepare(&cmwq_waiter);                                           \
			if (condition)                                                            \
				break;                                                            \
			sleep;                                                                    \
		}                                                                                 \
		cmwq_bit_finish(&cmwq_waiter);                                                    \
	} while (0)

/* Wakes the threads that wait for the bit, which the caller has cleared. */
static inline void wake_up_bit(const volatile unsigned long *word, int bit)
{
	cmwq_bit_wake(word, bit);
}

static inline void clear_and_wake_up_bit(int bit, unsigned long *word)
{
	clear_bit_unlock(bit, word);
	wake_up_bit(word, bit);
}

/* 0: the bit is clear. */
static inline int wait_on_bit(unsigned long *word, int bit, unsigned int mode)
{
	(void)mode;
	if (test_bit_acquire(bit, word))
		cmwq_bit_wait(word, bit, !test_bit_acquire(bit, word), schedule());
	return 0;
}

#define wait_on_bit_io(word, bit, mode) wait_on_bit((word), (bit), (mode))

/* Returns -EAGAIN if the bit was set for so many jiffies. */
static inline CMWQ_MUST_CHECK int wait_on_bit_timeout(unsigned long *word, int bit,
	unsigned int mode, unsigned long timeout)
{
	bool clear = !test_bit_acquire(bit, word);
	long left = (long)timeout;

	(void)mode;
	if (!clear)
		cmwq_bit_wait(word, bit, (clear = !test_bit_acquire(bit, word)) || !left,
			left = schedule_timeout(left));
	return clear ? 0 : -EAGAIN;
}

/* Waits until the bit is clear, and sets it. */
static inline int wait_on_bit_lock(unsigned long *word, int bit, unsigned int mode)
{
	(void)mode;
	if (test_and_set_bit_lock(bit, word))
		cmwq_bit_wait(word, bit, !test_and_set_bit_lock(bit, word), schedule());
	return 0;
}

#define wait_on_bit_lock_io(word, bit, mode) wait_on_bit_lock((word), (bit), (mode))

/* Wakes the threads that wait for a condition on the variable, which the caller has changed. */
static inline void wake_up_var(void *var)
{
	cmwq_bit_wake(var, CMWQ_NO_BIT);
}

#define wait_var_event(var, condition)                                            \
	do {                                                                      \
		if (!(condition))                                                 \
			cmwq_bit_wait((var), CMWQ_NO_BIT, condition, schedule()); \
	} while (0)
#define wait_var_event_killable(var, condition)      \
	__extension__({                              \
		wait_var_event((var), (condition));  \
		0;                                   \
	})
#define wait_var_event_interruptible(var, condition) wait_var_event_killable((var), (condition))
/*
 * Returns what is left of the time, at least 1; 0: the time was over and the condition did not
 * hold.
 */
#define wait_var_event_timeout(var, condition, timeout)                   \
	cmwq_time_left(__extension__({                                    \
		long cmwq_left = (long)(timeout);                         \
		bool cmwq_holds = (condition);                            \
		if (!cmwq_holds)                                          \
			cmwq_bit_wait((var), CMWQ_NO_BIT,                 \
				(cmwq_holds = (condition)) || !cmwq_left, \
				cmwq_left = schedule_timeout(cmwq_left)); \
		cmwq_holds ? (cmwq_left ? cmwq_left : 1) : 0;             \
	}))

/* Clears the bit and wakes the threads that wait for it. true: the bit was set. */
static inline bool test_and_clear_wake_up_bit(int bit, unsigned long *word)
{
	bool was = test_and_clear_bit(bit, word);

	if (was)
		wake_up_bit(word, bit);
	return was;
}

/* A thread that finds the value sees what the caller did before. */
#define store_release_wake_up(var, value)       \
	do {                                    \
		smp_store_release((var), (value)); \
		smp_mb();                       \
		wake_up_var(var);               \
	} while (0)
/* true: the counter is 0 now, and the threads that wait for that are woken. */
#define atomic_dec_and_wake_up(counter)                                   \
	__extension__({                                                   \
		bool cmwq_zero = atomic_dec_and_test(counter);            \
		if (cmwq_zero)                                            \
			wake_up_var(counter);                             \
		cmwq_zero;                                                \
	})
/* The caller holds the lock, except while it sleeps. */
#define cmwq_wait_var_locked(var, condition, unlock, lock)                                      \
	do {                                                                                    \
		if (!(condition))                                                               \
			cmwq_bit_wait((var), CMWQ_NO_BIT, condition, unlock; schedule(); lock); \
	} while (0)
#define wait_var_event_mutex(var, condition, mutex) \
	cmwq_wait_var_locked(var, condition, mutex_unlock(mutex), mutex_lock(mutex))
#define wait_var_event_spinlock(var, condition, spinlock) \
	cmwq_wait_var_locked(var, condition, spin_unlock(spinlock), spin_lock(spinlock))

#endif
#endif

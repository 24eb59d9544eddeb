/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: wait queues. Nothing
 * interrupts a wait: the interruptible and killable kinds return 0 or what is left. A program that
 * brings its own defines CMWQ_NO_WAIT.
 */
#ifndef CMWQ_LINUX_WAIT_H
#define CMWQ_LINUX_WAIT_H

#include <linux/cmwq_base.h>
/*
 * Otherwise this header does not include the system's, whose names <sys/wait.h> defines in another
 * way.
 */
#ifdef CMWQ_NO_WAIT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/wait.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_WAIT

#include <linux/cmwq_barrier.h>
#include <linux/list.h>
#include <linux/sched.h>
#include <linux/spinlock.h>

/* A word of C++. */
#ifdef __cplusplus
#define CMWQ_PRIVATE private_
#else
#define CMWQ_PRIVATE private
#endif

struct wait_queue_entry;
typedef int (*wait_queue_func_t)(struct wait_queue_entry *entry, unsigned int mode, int flags,
	void *key);

struct wait_queue_entry {
	unsigned int flags;
	/* Whom to wake. */
	void *CMWQ_PRIVATE;
	wait_queue_func_t func;
	struct list_head entry;
};

struct wait_queue_head {
	spinlock_t lock;
	struct list_head head;
};

typedef struct wait_queue_entry wait_queue_entry_t;
typedef struct wait_queue_head wait_queue_head_t;

#define WQ_FLAG_EXCLUSIVE 1u

static inline int default_wake_function(struct wait_queue_entry *entry, unsigned int mode,
	int flags, void *key)
{
	(void)flags;
	(void)key;
	return wake_up_state((struct task_struct *)entry->CMWQ_PRIVATE, mode);
}

/* The entry takes itself off the list when it wakes its thread. */
static inline int autoremove_wake_function(struct wait_queue_entry *entry, unsigned int mode,
	int flags, void *key)
{
	int woken = default_wake_function(entry, mode, flags, key);

	if (woken)
		list_del_init(&entry->entry);
	return woken;
}

#define __WAIT_QUEUE_HEAD_INITIALIZER(name) \
	{__SPIN_LOCK_UNLOCKED((name).lock), LIST_HEAD_INIT((name).head)}
#define DECLARE_WAIT_QUEUE_HEAD(name) \
	struct wait_queue_head name = __WAIT_QUEUE_HEAD_INITIALIZER(name)
#define DECLARE_WAIT_QUEUE_HEAD_ONSTACK(name) DECLARE_WAIT_QUEUE_HEAD(name)
#define DEFINE_WAIT_FUNC(name, function) \
	struct wait_queue_entry name = {0, current, (function), LIST_HEAD_INIT((name).entry)}
#define DEFINE_WAIT(name) DEFINE_WAIT_FUNC(name, autoremove_wake_function)
#define DECLARE_WAITQUEUE(name, task) \
	struct wait_queue_entry name = {0, (task), default_wake_function, {NULL, NULL}}

static inline void init_waitqueue_head(struct wait_queue_head *wq)
{
	spin_lock_init(&wq->lock);
	INIT_LIST_HEAD(&wq->head);
}

static inline void init_wait(struct wait_queue_entry *entry)
{
	entry->flags = 0;
	entry->CMWQ_PRIVATE = current;
	entry->func = autoremove_wake_function;
	INIT_LIST_HEAD(&entry->entry);
}

static inline void init_waitqueue_entry(struct wait_queue_entry *entry, struct task_struct *task)
{
	entry->flags = 0;
	entry->CMWQ_PRIVATE = task;
	entry->func = default_wake_function;
}

static inline void add_wait_queue(struct wait_queue_head *wq, struct wait_queue_entry *entry)
{
	entry->flags &= ~WQ_FLAG_EXCLUSIVE;
	spin_lock(&wq->lock);
	list_add(&entry->entry, &wq->head);
	spin_unlock(&wq->lock);
}

static inline void add_wait_queue_exclusive(struct wait_queue_head *wq,
	struct wait_queue_entry *entry)
{
	entry->flags |= WQ_FLAG_EXCLUSIVE;
	spin_lock(&wq->lock);
	list_add_tail(&entry->entry, &wq->head);
	spin_unlock(&wq->lock);
}

static inline void remove_wait_queue(struct wait_queue_head *wq, struct wait_queue_entry *entry)
{
	spin_lock(&wq->lock);
	list_del(&entry->entry);
	spin_unlock(&wq->lock);
}

/*
 * The caller sets its state before it checks its condition, so a waker that comes in between
 * finds the entry.
 */
static inline void prepare_to_wait(struct wait_queue_head *wq, struct wait_queue_entry *entry,
	unsigned int state)
{
	spin_lock(&wq->lock);
	/* A waker reads these fields if the entry is on the list already. */
	entry->flags &= ~WQ_FLAG_EXCLUSIVE;
	if (list_empty(&entry->entry))
		list_add(&entry->entry, &wq->head);
	set_current_state(state);
	spin_unlock(&wq->lock);
}

static inline void prepare_to_wait_exclusive(struct wait_queue_head *wq,
	struct wait_queue_entry *entry, unsigned int state)
{
	spin_lock(&wq->lock);
	entry->flags |= WQ_FLAG_EXCLUSIVE;
	if (list_empty(&entry->entry))
		list_add_tail(&entry->entry, &wq->head);
	set_current_state(state);
	spin_unlock(&wq->lock);
}

static inline void finish_wait(struct wait_queue_head *wq, struct wait_queue_entry *entry)
{
	__set_current_state(TASK_RUNNING);
	spin_lock(&wq->lock);
	list_del_init(&entry->entry);
	spin_unlock(&wq->lock);
}

static inline int waitqueue_active(struct wait_queue_head *wq)
{
	return __atomic_load_n(&wq->head.next, __ATOMIC_RELAXED) != &wq->head;
}

static inline bool wq_has_sleeper(struct wait_queue_head *wq)
{
	smp_mb();
	return waitqueue_active(wq);
}

/*
 * Wakes all waiters that are not exclusive, and so many exclusive ones as `exclusive` says; 0: all.
 */
static inline void __wake_up_locked(struct wait_queue_head *wq, unsigned int mode, int exclusive,
	void *key)
{
	struct list_head *at = wq->head.next, *next;

	for (; at != &wq->head; at = next) {
		struct wait_queue_entry *entry = list_entry(at, struct wait_queue_entry, entry);
		unsigned int flags = entry->flags;

		next = at->next;
		if (entry->func(entry, mode, 0, key) && flags & WQ_FLAG_EXCLUSIVE && !--exclusive)
			break;
	}
}

static inline void __wake_up(struct wait_queue_head *wq, unsigned int mode, int exclusive,
	void *key)
{
	spin_lock(&wq->lock);
	__wake_up_locked(wq, mode, exclusive, key);
	spin_unlock(&wq->lock);
}

#define wake_up(wq) __wake_up((wq), TASK_NORMAL, 1, NULL)
#define wake_up_nr(wq, n) __wake_up((wq), TASK_NORMAL, (n), NULL)
#define wake_up_all(wq) __wake_up((wq), TASK_NORMAL, 0, NULL)
#define wake_up_locked(wq) __wake_up_locked((wq), TASK_NORMAL, 1, NULL)
#define wake_up_all_locked(wq) __wake_up_locked((wq), TASK_NORMAL, 0, NULL)
#define wake_up_interruptible(wq) __wake_up((wq), TASK_INTERRUPTIBLE, 1, NULL)
#define wake_up_interruptible_nr(wq, n) __wake_up((wq), TASK_INTERRUPTIBLE, (n), NULL)
#define wake_up_interruptible_all(wq) __wake_up((wq), TASK_INTERRUPTIBLE, 0, NULL)
#define wake_up_poll(wq, key) __wake_up((wq), TASK_NORMAL, 1, NULL)
#define wake_up_sync(wq) wake_up(wq)

#define cmwq_wait_event(wq, condition, prepare, state, sleep)                  \
	do {                                                                   \
		DEFINE_WAIT(cmwq_entry);                                       \
		for (;;) {                                                     \
			prepare(&(wq), &cmwq_entry, (state));                  \
			if (condition)                                         \
				break;                                         \
			sleep;                                                 \
		}                                                              \
		finish_wait(&(wq), &cmwq_entry);                               \
	} while (0)

#define wait_event(wq, condition)                                                             \
	do {                                                                                  \
		if (!(condition))                                                             \
			cmwq_wait_event(wq, condition, prepare_to_wait, TASK_UNINTERRUPTIBLE, \
				schedule());                                                  \
	} while (0)
#define io_wait_event(wq, condition) wait_event(wq, condition)
#define cmwq_wait_event_int(wq, condition, prepare)                                             \
	__extension__({                                                                         \
		if (!(condition))                                                               \
			cmwq_wait_event(wq, condition, prepare, TASK_INTERRUPTIBLE, schedule()); \
		0;                                                                              \
	})
#define wait_event_interruptible(wq, condition) cmwq_wait_event_int(wq, condition, prepare_to_wait)
#define wait_event_interruptible_exclusive(wq, condition) \
	cmwq_wait_event_int(wq, condition, prepare_to_wait_exclusive)
#define wait_event_killable(wq, condition)       \
	__extension__({                          \
		wait_event(wq, condition);       \
		0;                               \
	})
#define wait_event_killable_exclusive(wq, condition)                              \
	__extension__({                                                           \
		if (!(condition))                                                 \
			cmwq_wait_event(wq, condition, prepare_to_wait_exclusive, \
				TASK_UNINTERRUPTIBLE, schedule());                \
		0;                                                                \
	})
#define wait_event_freezable(wq, condition) wait_event_interruptible(wq, condition)
#define wait_event_idle(wq, condition) wait_event(wq, condition)
#define wait_event_freezable_timeout(wq, condition, timeout) \
	wait_event_interruptible_timeout(wq, condition, timeout)

/* For macros that wait with a deadline: the caller must look at what is left of the time. */
static inline CMWQ_MUST_CHECK long cmwq_time_left(long left)
{
	return left;
}

/*
 * Returns 0 if the time is over and the condition does not hold, otherwise how many jiffies were
 * left, at least 1.
 */
#define cmwq_wait_event_timeout(wq, condition, timeout, state)                                  \
	cmwq_time_left(__extension__({                                                          \
		long cmwq_left = (long)(timeout);                                               \
		int cmwq_true = 0;                                                              \
		cmwq_wait_event(wq, (cmwq_true = !!(condition)) || !cmwq_left, prepare_to_wait, \
			state, cmwq_left = schedule_timeout(cmwq_left));                        \
		cmwq_true && !cmwq_left ? 1 : cmwq_true ? cmwq_left : 0;                        \
	}))
#define wait_event_timeout(wq, condition, timeout) \
	cmwq_wait_event_timeout(wq, condition, timeout, TASK_UNINTERRUPTIBLE)
#define wait_event_interruptible_timeout(wq, condition, timeout) \
	cmwq_wait_event_timeout(wq, condition, timeout, TASK_INTERRUPTIBLE)
#define wait_event_killable_timeout(wq, condition, timeout) \
	wait_event_timeout(wq, condition, timeout)
#define wait_event_idle_timeout(wq, condition, timeout) wait_event_timeout(wq, condition, timeout)

/* The caller holds the lock, except while it sleeps. */
#define wait_event_lock_irq(wq, condition, lock)                                              \
	do {                                                                                  \
		if (!(condition))                                                             \
			cmwq_wait_event(wq, condition, prepare_to_wait, TASK_UNINTERRUPTIBLE, \
				spin_unlock_irq(&(lock));                                     \
				schedule(); spin_lock_irq(&(lock)));                          \
	} while (0)
#define wait_event_cmd(wq, condition, before, after)                                          \
	do {                                                                                  \
		if (!(condition))                                                             \
			cmwq_wait_event(wq, condition, prepare_to_wait, TASK_UNINTERRUPTIBLE, \
				before;                                                       \
				schedule(); after);                                           \
	} while (0)

#define init_waitqueue_func_entry(entry, function)     \
	do {                                           \
		(entry)->flags = 0;                    \
		(entry)->CMWQ_PRIVATE = NULL;          \
		(entry)->func = (function);            \
	} while (0)
#define wake_up_interruptible_sync(wq) wake_up_interruptible(wq)

/* 0: nothing interrupts. */
static inline long prepare_to_wait_event(struct wait_queue_head *wq, struct wait_queue_entry *entry,
	unsigned int state)
{
	if (entry->flags & WQ_FLAG_EXCLUSIVE)
		prepare_to_wait_exclusive(wq, entry, state);
	else
		prepare_to_wait(wq, entry, state);
	return 0;
}

static inline bool wq_has_single_sleeper(struct wait_queue_head *wq)
{
	bool single;

	spin_lock(&wq->lock);
	single = list_is_singular(&wq->head) != 0;
	spin_unlock(&wq->lock);
	return single;
}

/*
 * The waker marks the entry, so the waiter need not set a state before it checks its condition.
 */
#define WQ_FLAG_WOKEN 2u

static inline int woken_wake_function(struct wait_queue_entry *entry, unsigned int mode, int flags,
	void *key)
{
	__atomic_fetch_or(&entry->flags, WQ_FLAG_WOKEN, __ATOMIC_SEQ_CST);
	return default_wake_function(entry, mode, flags, key);
}

/* Returns how many jiffies were left. */
static inline long wait_woken(struct wait_queue_entry *entry, unsigned int mode, long timeout)
{
	set_current_state(mode);
	if (!(__atomic_load_n(&entry->flags, __ATOMIC_SEQ_CST) & WQ_FLAG_WOKEN))
		timeout = schedule_timeout(timeout);
	__set_current_state(TASK_RUNNING);
	__atomic_fetch_and(&entry->flags, ~WQ_FLAG_WOKEN, __ATOMIC_SEQ_CST);
	return timeout;
}

#define wait_event_interruptible_lock_irq(wq, condition, lock)   \
	__extension__({                                          \
		wait_event_lock_irq(wq, condition, lock);        \
		0;                                               \
	})
#define wait_event_idle_exclusive(wq, condition) \
	((void)wait_event_killable_exclusive(wq, condition))
#define wait_event_state(wq, condition, state) wait_event_killable(wq, condition)
#define wait_event_lock_irq_timeout(wq, condition, lock, timeout)                                 \
	cmwq_time_left(__extension__({                                                            \
		long cmwq_left = (long)(timeout);                                                 \
		int cmwq_true = !!(condition);                                                    \
		if (!cmwq_true)                                                                   \
			cmwq_wait_event(wq, (cmwq_true = !!(condition)) || !cmwq_left,            \
				prepare_to_wait, TASK_UNINTERRUPTIBLE, spin_unlock_irq(&(lock));  \
				cmwq_left = schedule_timeout(cmwq_left); spin_lock_irq(&(lock))); \
		cmwq_true && !cmwq_left ? 1 : cmwq_true ? cmwq_left : 0;                          \
	}))

#define wait_event_lock_irq_cmd(wq, condition, lock, cmd)                                     \
	do {                                                                                  \
		if (!(condition))                                                             \
			cmwq_wait_event(wq, condition, prepare_to_wait, TASK_UNINTERRUPTIBLE, \
				spin_unlock_irq(&(lock));                                     \
				cmd; schedule(); spin_lock_irq(&(lock)));                     \
	} while (0)
#define init_wait_func(entry, function)          \
	do {                                     \
		init_wait(entry);                \
		(entry)->func = (function);      \
	} while (0)
/*
 * The caller holds the lock of the queue, except while it sleeps; the waker calls wake_up_locked().
 */
#define wait_event_interruptible_locked(wq, condition)                             \
	__extension__({                                                            \
		DEFINE_WAIT(cmwq_entry);                                           \
		while (!(condition)) {                                             \
			if (list_empty(&cmwq_entry.entry))                         \
				list_add_tail(&cmwq_entry.entry, &(wq).head);      \
			set_current_state(TASK_INTERRUPTIBLE);                     \
			spin_unlock(&(wq).lock);                                   \
			schedule();                                                \
			spin_lock(&(wq).lock);                                     \
		}                                                                  \
		list_del_init(&cmwq_entry.entry);                                  \
		__set_current_state(TASK_RUNNING);                                 \
		0;                                                                 \
	})
#define wait_event_interruptible_locked_irq(wq, condition) \
	wait_event_interruptible_locked(wq, condition)

/* The caller holds the lock of the queue. */
static inline void __add_wait_queue(struct wait_queue_head *wq, struct wait_queue_entry *entry)
{
	list_add(&entry->entry, &wq->head);
}

static inline void __add_wait_queue_exclusive(struct wait_queue_head *wq,
	struct wait_queue_entry *entry)
{
	entry->flags |= WQ_FLAG_EXCLUSIVE;
	__add_wait_queue(wq, entry);
}

static inline void __add_wait_queue_entry_tail(struct wait_queue_head *wq,
	struct wait_queue_entry *entry)
{
	list_add_tail(&entry->entry, &wq->head);
}

static inline void __add_wait_queue_entry_tail_exclusive(struct wait_queue_head *wq,
	struct wait_queue_entry *entry)
{
	entry->flags |= WQ_FLAG_EXCLUSIVE;
	__add_wait_queue_entry_tail(wq, entry);
}

static inline void __remove_wait_queue(struct wait_queue_head *wq, struct wait_queue_entry *entry)
{
	(void)wq;
	list_del(&entry->entry);
}

/* For prepare_to_wait_event(). */
static inline void init_wait_entry(struct wait_queue_entry *entry, int flags)
{
	init_wait(entry);
	entry->flags = (unsigned int)flags;
}

#define wait_event_exclusive_cmd(wq, condition, before, after)                    \
	do {                                                                      \
		if (!(condition))                                                 \
			cmwq_wait_event(wq, condition, prepare_to_wait_exclusive, \
				TASK_UNINTERRUPTIBLE, before;                     \
				schedule(); after);                               \
	} while (0)
#define wait_event_interruptible_lock_irq_cmd(wq, condition, lock, cmd)    \
	__extension__({                                                    \
		wait_event_lock_irq_cmd(wq, condition, lock, cmd);         \
		0;                                                         \
	})
#define wait_event_interruptible_lock_irq_timeout(wq, condition, lock, timeout) \
	wait_event_lock_irq_timeout(wq, condition, lock, timeout)

#endif
#endif

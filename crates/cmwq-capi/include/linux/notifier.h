/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: chains of functions that
 * are told of events, those of higher priority first. Atomic chains are called in a read-side
 * section of RCU, blocking ones with a lock for reading, raw ones without either. The section or
 * the lock ends also if a function of the chain ends its thread, by pthread_exit() for example. A
 * program that brings its own header defines CMWQ_NO_NOTIFIER.
 */
#ifndef CMWQ_LINUX_NOTIFIER_H
#define CMWQ_LINUX_NOTIFIER_H

#include <linux/cmwq_base.h>
#if defined(CMWQ_NO_NOTIFIER) || defined(CMWQ_NO_RCUPDATE) || defined(CMWQ_NO_RWSEM) || \
	defined(CMWQ_NO_SPINLOCK)
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/notifier.h"
#include <linux/cmwq_next.h>
#else

#include <errno.h>
#include <linux/bug.h>
#include <linux/rcupdate.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <pthread.h>
#include <stdbool.h>

struct notifier_block;
typedef int (*notifier_fn_t)(struct notifier_block *nb, unsigned long action, void *data);

struct notifier_block {
	notifier_fn_t notifier_call;
	struct notifier_block *next;
	int priority;
};

struct atomic_notifier_head {
	spinlock_t lock;
	struct notifier_block *head;
};

/* A call of a blocking chain that has not ended. Lies on the stack of the thread that calls. */
struct cmwq_notifier_use {
	struct cmwq_notifier_use *next;
	struct blocking_notifier_head *of;
	struct cmwq_task *task;
	/* Inside another one of the same thread, which has the lock. */
	bool nested;
};

/* The lock inside `rwsem` guards `uses`. */
struct blocking_notifier_head {
	struct rw_semaphore rwsem;
	struct notifier_block *head;
	struct cmwq_notifier_use *uses;
};

struct raw_notifier_head {
	struct notifier_block *head;
};

#define NOTIFY_DONE 0x0000
#define NOTIFY_OK 0x0001
#define NOTIFY_STOP_MASK 0x8000
#define NOTIFY_BAD (NOTIFY_STOP_MASK | 0x0002)
#define NOTIFY_STOP (NOTIFY_OK | NOTIFY_STOP_MASK)

/* An error number as an answer that stops the chain, and back. */
static inline int notifier_from_errno(int err)
{
	return err ? NOTIFY_STOP_MASK | (NOTIFY_OK - err) : NOTIFY_OK;
}

static inline int notifier_to_errno(int ret)
{
	ret &= ~NOTIFY_STOP_MASK;
	return ret > NOTIFY_OK ? NOTIFY_OK - ret : 0;
}

/* ---- what the kinds share: one thread at a time changes a chain ---- */

static inline int cmwq_notifier_add(struct notifier_block **at, struct notifier_block *nb,
	bool unique)
{
	for (; *at && (*at)->priority >= nb->priority; at = &(*at)->next) {
		if (*at == nb)
			return -EEXIST;
		if (unique && (*at)->priority == nb->priority)
			return -EBUSY;
	}
	RCU_INIT_POINTER(nb->next, *at);
	rcu_assign_pointer(*at, nb);
	return 0;
}

static inline int cmwq_notifier_remove(struct notifier_block **at, struct notifier_block *nb)
{
	for (; *at; at = &(*at)->next) {
		if (*at == nb) {
			rcu_assign_pointer(*at, nb->next);
			return 0;
		}
	}
	return -ENOENT;
}

/*
 * Calls at most `most` functions of the chain, and counts those that it has called. Returns the
 * answer of the last one.
 */
static inline int cmwq_notifier_call(struct notifier_block **head, unsigned long action, void *data,
	int most, int *called)
{
	struct notifier_block *nb = rcu_dereference(*head);
	int ret = NOTIFY_DONE;

	while (nb && *called < most) {
		/* The function may take itself off the chain. */
		struct notifier_block *next = rcu_dereference(nb->next);

		ret = nb->notifier_call(nb, action, data);
		++*called;
		if (ret & NOTIFY_STOP_MASK)
			break;
		nb = next;
	}
	return ret;
}

#define CMWQ_NOTIFIER_ALL 0x7fffffff

/* If one function refuses, the functions before it are told that the event does not happen. */
static inline int cmwq_notifier_call_robust(struct notifier_block **head, unsigned long up,
	unsigned long down, void *data)
{
	int called = 0, undone = 0,
	    ret = cmwq_notifier_call(head, up, data, CMWQ_NOTIFIER_ALL, &called);

	if (ret & NOTIFY_STOP_MASK)
		cmwq_notifier_call(head, down, data, called - 1, &undone);
	return ret;
}

/* A call of a chain, in a section or under a lock. */
struct cmwq_notifier_round {
	struct notifier_block **head;
	unsigned long up, down;
	void *data;
	bool robust;
	int called, ret;
};

/* Calls the chain, and then `leave`, also if a function of the chain ends the thread. */
static inline int cmwq_notifier_call_within(void (*leave)(void *arg), void *arg,
	struct cmwq_notifier_round *round)
{
	pthread_cleanup_push(leave, arg);
	if (round->robust)
		round->ret = cmwq_notifier_call_robust(round->head, round->up, round->down,
			round->data);
	else
		round->ret = cmwq_notifier_call(round->head, round->up, round->data,
			CMWQ_NOTIFIER_ALL, &round->called);
	pthread_cleanup_pop(1);
	return round->ret;
}

/* ---- atomic ---- */

#define ATOMIC_NOTIFIER_INIT(name) {__SPIN_LOCK_UNLOCKED((name).lock), NULL}
#define ATOMIC_NOTIFIER_HEAD(name) struct atomic_notifier_head name = ATOMIC_NOTIFIER_INIT(name)
#define ATOMIC_INIT_NOTIFIER_HEAD(name) (spin_lock_init(&(name)->lock), (void)((name)->head = NULL))

static inline int cmwq_atomic_notifier_add(struct atomic_notifier_head *nh,
	struct notifier_block *nb, bool unique)
{
	int failed;

	spin_lock(&nh->lock);
	failed = cmwq_notifier_add(&nh->head, nb, unique);
	spin_unlock(&nh->lock);
	return failed;
}

static inline int atomic_notifier_chain_register(struct atomic_notifier_head *nh,
	struct notifier_block *nb)
{
	return cmwq_atomic_notifier_add(nh, nb, false);
}

static inline int atomic_notifier_chain_register_unique_prio(struct atomic_notifier_head *nh,
	struct notifier_block *nb)
{
	return cmwq_atomic_notifier_add(nh, nb, true);
}

/* When this returns, no thread calls the function any more. */
static inline int atomic_notifier_chain_unregister(struct atomic_notifier_head *nh,
	struct notifier_block *nb)
{
	int failed;

	spin_lock(&nh->lock);
	failed = cmwq_notifier_remove(&nh->head, nb);
	spin_unlock(&nh->lock);
	synchronize_rcu();
	return failed;
}

static inline void cmwq_notifier_leave_section(void *arg)
{
	(void)arg;
	rcu_read_unlock();
}

static inline void cmwq_notifier_unlock(void *lock)
{
	spin_unlock((spinlock_t *)lock);
}

static inline int atomic_notifier_call_chain(struct atomic_notifier_head *nh, unsigned long action,
	void *data)
{
	struct cmwq_notifier_round round = {&nh->head, action, 0, data, false, 0, NOTIFY_DONE};

	rcu_read_lock();
	return cmwq_notifier_call_within(cmwq_notifier_leave_section, NULL, &round);
}

static inline int atomic_notifier_call_chain_robust(struct atomic_notifier_head *nh,
	unsigned long up, unsigned long down, void *data)
{
	struct cmwq_notifier_round round = {&nh->head, up, down, data, true, 0, NOTIFY_DONE};

	/* As one that changes it: those that are undone are those that were called. */
	spin_lock(&nh->lock);
	return cmwq_notifier_call_within(cmwq_notifier_unlock, &nh->lock, &round);
}

static inline bool atomic_notifier_call_chain_is_empty(struct atomic_notifier_head *nh)
{
	return !rcu_access_pointer(nh->head);
}

/* ---- blocking ---- */

#define BLOCKING_NOTIFIER_INIT(name) {__RWSEM_INITIALIZER((name).rwsem), NULL, NULL}
#define BLOCKING_NOTIFIER_HEAD(name) \
	struct blocking_notifier_head name = BLOCKING_NOTIFIER_INIT(name)
#define BLOCKING_INIT_NOTIFIER_HEAD(name) \
	(init_rwsem(&(name)->rwsem), (void)((name)->head = NULL), (void)((name)->uses = NULL))

/* Whether the calling thread calls this chain now. */
static inline bool cmwq_notifier_is_within(struct blocking_notifier_head *nh)
{
	struct cmwq_task *own = cmwq_current_task();
	struct cmwq_notifier_use *use;

	pthread_mutex_lock(&nh->rwsem.cmwq_lock);
	for (use = nh->uses; use && use->task != own; use = use->next)
		;
	pthread_mutex_unlock(&nh->rwsem.cmwq_lock);
	return use != NULL;
}

/*
 * Takes the lock for a change. false, with a warning: the caller is a function of the chain, which
 * the change would wait for.
 */
static inline bool cmwq_notifier_begin_change(struct blocking_notifier_head *nh)
{
	if (WARN_ONCE(cmwq_notifier_is_within(nh),
		"a function of a blocking notifier chain changes that chain, "
		"which would wait for its end\n"))
		return false;
	down_write(&nh->rwsem);
	return true;
}

/* -EDEADLK: from a function of the chain itself. */
static inline int cmwq_blocking_notifier_add(struct blocking_notifier_head *nh,
	struct notifier_block *nb, bool unique)
{
	int failed;

	if (!cmwq_notifier_begin_change(nh))
		return -EDEADLK;
	failed = cmwq_notifier_add(&nh->head, nb, unique);
	up_write(&nh->rwsem);
	return failed;
}

static inline int blocking_notifier_chain_register(struct blocking_notifier_head *nh,
	struct notifier_block *nb)
{
	return cmwq_blocking_notifier_add(nh, nb, false);
}

static inline int blocking_notifier_chain_register_unique_prio(struct blocking_notifier_head *nh,
	struct notifier_block *nb)
{
	return cmwq_blocking_notifier_add(nh, nb, true);
}

static inline int blocking_notifier_chain_unregister(struct blocking_notifier_head *nh,
	struct notifier_block *nb)
{
	int failed;

	if (!cmwq_notifier_begin_change(nh))
		return -EDEADLK;
	failed = cmwq_notifier_remove(&nh->head, nb);
	up_write(&nh->rwsem);
	return failed;
}

static inline void cmwq_notifier_begin_use(struct blocking_notifier_head *nh,
	struct cmwq_notifier_use *use)
{
	use->of = nh;
	use->task = cmwq_current_task();
	use->nested = cmwq_notifier_is_within(nh);
	if (!use->nested)
		down_read(&nh->rwsem);
	pthread_mutex_lock(&nh->rwsem.cmwq_lock);
	use->next = nh->uses;
	nh->uses = use;
	pthread_mutex_unlock(&nh->rwsem.cmwq_lock);
}

static inline void cmwq_notifier_end_use(void *arg)
{
	struct cmwq_notifier_use *use = (struct cmwq_notifier_use *)arg, **at;

	pthread_mutex_lock(&use->of->rwsem.cmwq_lock);
	for (at = &use->of->uses; *at != use; at = &(*at)->next)
		;
	*at = use->next;
	pthread_mutex_unlock(&use->of->rwsem.cmwq_lock);
	if (!use->nested)
		up_read(&use->of->rwsem);
}

static inline int blocking_notifier_call_chain(struct blocking_notifier_head *nh,
	unsigned long action, void *data)
{
	struct cmwq_notifier_round round = {&nh->head, action, 0, data, false, 0, NOTIFY_DONE};
	struct cmwq_notifier_use use;

	cmwq_notifier_begin_use(nh, &use);
	return cmwq_notifier_call_within(cmwq_notifier_end_use, &use, &round);
}

static inline int blocking_notifier_call_chain_robust(struct blocking_notifier_head *nh,
	unsigned long up, unsigned long down, void *data)
{
	struct cmwq_notifier_round round = {&nh->head, up, down, data, true, 0, NOTIFY_DONE};
	struct cmwq_notifier_use use;

	cmwq_notifier_begin_use(nh, &use);
	return cmwq_notifier_call_within(cmwq_notifier_end_use, &use, &round);
}

/* ---- raw: the caller has a lock ---- */

#define RAW_NOTIFIER_INIT(name) {NULL}
#define RAW_NOTIFIER_HEAD(name) struct raw_notifier_head name = RAW_NOTIFIER_INIT(name)
#define RAW_INIT_NOTIFIER_HEAD(name) ((void)((name)->head = NULL))

static inline int raw_notifier_chain_register(struct raw_notifier_head *nh,
	struct notifier_block *nb)
{
	return cmwq_notifier_add(&nh->head, nb, false);
}

static inline int raw_notifier_chain_unregister(struct raw_notifier_head *nh,
	struct notifier_block *nb)
{
	return cmwq_notifier_remove(&nh->head, nb);
}

static inline int raw_notifier_call_chain(struct raw_notifier_head *nh, unsigned long action,
	void *data)
{
	int called = 0;

	return cmwq_notifier_call(&nh->head, action, data, CMWQ_NOTIFIER_ALL, &called);
}

static inline int raw_notifier_call_chain_robust(struct raw_notifier_head *nh, unsigned long up,
	unsigned long down, void *data)
{
	return cmwq_notifier_call_robust(&nh->head, up, down, data);
}

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: read-copy-update of the
 * library: sections nest and may sleep; callbacks run on a worker. A program that brings its own
 * defines CMWQ_NO_RCUPDATE.
 */
#ifndef CMWQ_LINUX_RCUPDATE_H
#define CMWQ_LINUX_RCUPDATE_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_RCUPDATE
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/rcupdate.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_RCUPDATE

#include <linux/cmwq_compiler.h>
#include <linux/cmwq_barrier.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* The same memory as struct cmwq_rcu_head. */
struct callback_head {
	struct callback_head *next;
	void (*func)(struct callback_head *head);
};
#define rcu_head callback_head
typedef void (*rcu_callback_t)(struct rcu_head *head);

CMWQ_ASSERT(sizeof(struct rcu_head) == sizeof(struct cmwq_rcu_head), "layout of rcu_head");

/* rcu_work is there. */
#define CMWQ_HAS_RCU

static inline void rcu_read_lock(void)
{
	cmwq_rcu_read_lock();
}

static inline void rcu_read_unlock(void)
{
	cmwq_rcu_read_unlock();
}

static inline int rcu_read_lock_held(void)
{
	return cmwq_rcu_read_lock_held();
}

#define rcu_read_lock_bh() rcu_read_lock()
#define rcu_read_unlock_bh() rcu_read_unlock()
#define rcu_read_lock_sched() rcu_read_lock()
#define rcu_read_unlock_sched() rcu_read_unlock()

static inline void synchronize_rcu(void)
{
	cmwq_synchronize_rcu();
}

/*
 * The library frees the memory that contains the head, after a grace period: it tells an offset
 * from a function.
 */
static inline void cmwq_kfree_rcu(struct rcu_head *head, size_t offset)
{
	cmwq_call_rcu((struct cmwq_rcu_head *)(void *)head,
		(void (*)(struct cmwq_rcu_head *))offset);
}

#define kfree_rcu(ptr, member)                                                    \
	cmwq_kfree_rcu(CMWQ_AS_ASSIGNED((struct rcu_head *)NULL, &(ptr)->member), \
		offsetof(__typeof__(*(ptr)), member))
#define kvfree_rcu(ptr, member) kfree_rcu(ptr, member)
#define synchronize_rcu_expedited() synchronize_rcu()
#define synchronize_net() synchronize_rcu()

static inline void call_rcu(struct rcu_head *head, rcu_callback_t func)
{
	cmwq_call_rcu((struct cmwq_rcu_head *)(void *)head,
		(void (*)(struct cmwq_rcu_head *))(void (*)(void))func);
}

#define call_rcu_hurry(head, func) call_rcu((head), (func))

static inline void rcu_barrier(void)
{
	cmwq_rcu_barrier();
}

#define rcu_assign_pointer(ptr, value) \
	__atomic_store_n(&(ptr), CMWQ_AS_ASSIGNED(ptr, value), __ATOMIC_RELEASE)
#define RCU_INIT_POINTER(ptr, value) \
	__atomic_store_n(&(ptr), CMWQ_AS_ASSIGNED(ptr, value), __ATOMIC_RELAXED)
#define rcu_dereference(ptr) __atomic_load_n(&(ptr), __ATOMIC_ACQUIRE)
#define rcu_dereference_check(ptr, condition) rcu_dereference(ptr)
#define rcu_dereference_bh(ptr) rcu_dereference(ptr)
#define rcu_dereference_raw(ptr) rcu_dereference(ptr)
#define rcu_dereference_protected(ptr, condition) __atomic_load_n(&(ptr), __ATOMIC_RELAXED)
#define rcu_access_pointer(ptr) __atomic_load_n(&(ptr), __ATOMIC_RELAXED)
#define rcu_replace_pointer(ptr, value, condition) \
	__atomic_exchange_n(&(ptr), CMWQ_AS_ASSIGNED(ptr, value), __ATOMIC_ACQ_REL)

/*
 * The library frees the memory after a grace period; without a head the caller waits for that
 * period.
 */
#define kfree_rcu_mightsleep(ptr)        \
	do {                             \
		synchronize_rcu();       \
		free(ptr);               \
	} while (0)

#define kvfree_rcu_mightsleep(ptr) kfree_rcu_mightsleep(ptr)
#define rcu_read_lock_any_held() rcu_read_lock_held()
#define RCU_LOCKDEP_WARN(condition, text) ((void)sizeof(!!(condition)))
#define rcu_dereference_sched(ptr) rcu_dereference(ptr)
#define rcu_read_lock_bh_held() rcu_read_lock_held()
#define rcu_read_lock_sched_held() rcu_read_lock_held()
#define rcu_pointer_handoff(ptr) (ptr)
#define unrcu_pointer(ptr) (ptr)
#define RCU_INITIALIZER(value) (value)
#define RCU_POINTER_INITIALIZER(member, value) .member = (value)
#define init_rcu_head(head) ((void)(head))
#define destroy_rcu_head(head) ((void)(head))
#define init_rcu_head_on_stack(head) ((void)(head))
#define destroy_rcu_head_on_stack(head) ((void)(head))
#define rcu_head_init(head) ((void)((head)->func = NULL))
#define cond_resched_rcu()         \
	do {                       \
		rcu_read_unlock(); \
		rcu_read_lock();   \
	} while (0)

#define rcu_dereference_bh_check(ptr, condition) rcu_dereference(ptr)
#define rcu_dereference_sched_check(ptr, condition) rcu_dereference(ptr)
#define rcu_dereference_raw_check(ptr) rcu_dereference(ptr)
#define rcu_sleep_check() ((void)0)
#define rcu_is_watching() true
#define kvfree_rcu_barrier() rcu_barrier()

/* Whether a caller has passed the head with this function to call_rcu() since rcu_head_init(). */
static inline bool rcu_head_after_call_rcu(struct rcu_head *head, rcu_callback_t func)
{
	return __atomic_load_n(&head->func, __ATOMIC_RELAXED) == func;
}

#endif
#endif

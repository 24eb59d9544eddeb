/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: timers, on the wheel
 * that delayed work uses. A timer's function runs as an item of the BH workqueue of its CPU: one
 * after the other there, and it must not block, as in the kernel. A timer never fires early. A
 * program that brings its own defines CMWQ_NO_TIMER.
 */
#ifndef CMWQ_LINUX_TIMER_H
#define CMWQ_LINUX_TIMER_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_TIMER
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/timer.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_TIMER

#include <linux/container_of.h>
#include <linux/jiffies.h>
#include <linux/cmwq_delay.h>
#include <linux/types.h>
#include <stdbool.h>

struct timer_list {
	unsigned long expires;
	void (*function)(struct timer_list *timer);
	u32 flags;
	struct cmwq_delayed_work cmwq_dwork;
};

/* The timer of a delayed item, which <linux/workqueue.h> defines. */
struct cmwq_delayed_timer;

#define TIMER_DEFERRABLE 0x00080000
#define TIMER_PINNED 0x00100000
#define TIMER_IRQSAFE 0x00200000

static inline void cmwq_timer_fires(struct cmwq_work *work)
{
	struct timer_list *timer = CMWQ_CONTAINER_OF(work, struct timer_list, cmwq_dwork.work);

	timer->function(timer);
}

#define __TIMER_INITIALIZER(fn, timer_flags) \
	{0, (fn), (timer_flags), CMWQ_DELAYED_WORK_INIT(cmwq_timer_fires)}
#define DEFINE_TIMER(name, fn) struct timer_list name = __TIMER_INITIALIZER(fn, 0)

static inline void timer_setup(struct timer_list *timer, void (*function)(struct timer_list *timer),
	unsigned int flags)
{
	timer->expires = 0;
	timer->function = function;
	timer->flags = flags;
	cmwq_init_delayed_work(&timer->cmwq_dwork, cmwq_timer_fires);
}

#define timer_setup_on_stack(timer, function, flags) timer_setup((timer), (function), (flags))

static inline void timer_destroy_on_stack(struct timer_list *timer)
{
	(void)timer;
}

#define destroy_timer_on_stack(timer) timer_destroy_on_stack(timer)

static inline int timer_pending(const struct timer_list *timer)
{
	return cmwq_work_pending(&timer->cmwq_dwork.work);
}

/*
 * If several threads call this at the same time, the last one sets `expires` too. This thread does
 * not touch the timer afterwards, since its function may have freed it.
 */
static inline int cmwq_timer_arm(int which, struct timer_list *timer, int cpu,
	unsigned long expires)
{
	unsigned long now = jiffies, left = time_after(expires, now) ? expires - now : 0;

	return cmwq_mod_delayed_work_if_ns(which, cpu, cmwq_system_workqueue(CMWQ_SYSTEM_BH),
		&timer->cmwq_dwork, cmwq_jiffies_to_ns(left), &timer->expires, expires);
}

/*
 * Returns 1 if the timer was pending and is moved, 0 if it was not and is armed now. A timer that
 * is shut down stays so.
 */
static inline int mod_timer(struct timer_list *timer, unsigned long expires)
{
	/* Where a race detector sees it. */
	__atomic_store_n(&timer->expires, expires, __ATOMIC_RELAXED);
	return cmwq_timer_arm(CMWQ_MOD_ALWAYS, timer, CMWQ_CPU_ANY, expires);
}

/* A timer that is not pending stays so. */
static inline int mod_timer_pending(struct timer_list *timer, unsigned long expires)
{
	return cmwq_timer_arm(CMWQ_MOD_IF_PENDING, timer, CMWQ_CPU_ANY, expires);
}

/* Only to an earlier time. */
static inline int timer_reduce(struct timer_list *timer, unsigned long expires)
{
	return cmwq_timer_arm(CMWQ_MOD_IF_LATER, timer, CMWQ_CPU_ANY, expires);
}

static inline void add_timer(struct timer_list *timer)
{
	mod_timer(timer, timer->expires);
}

static inline void add_timer_on(struct timer_list *timer, int cpu)
{
	cmwq_timer_arm(CMWQ_MOD_ALWAYS, timer, cpu, timer->expires);
}

/* Returns 1 if the timer was pending. Its function may still run; with _sync it no longer runs. */
static inline int cmwq_timer_delete(struct timer_list *timer)
{
	return cmwq_cancel_delayed_work(&timer->cmwq_dwork);
}

static inline int timer_delete_sync(struct timer_list *timer)
{
	return cmwq_cancel_delayed_work_sync(&timer->cmwq_dwork);
}

static inline int try_to_del_timer_sync(struct timer_list *timer)
{
	return cmwq_work_busy(&timer->cmwq_dwork.work) & CMWQ_WORK_BUSY_RUNNING
		? -1
		: cmwq_timer_delete(timer);
}

/* The same, and no thread can arm the timer again until one sets it up anew. */
static inline int timer_shutdown(struct timer_list *timer)
{
	return cmwq_disable_delayed_work(&timer->cmwq_dwork);
}

static inline int timer_shutdown_sync(struct timer_list *timer)
{
	return cmwq_disable_delayed_work_sync(&timer->cmwq_dwork);
}

static inline int cmwq_delayed_timer_pending(const struct cmwq_delayed_timer *timer)
{
	return cmwq_delayed_work_left_ns(
		       (const struct cmwq_delayed_work *)(const void *)((const char *)timer -
			       offsetof(struct cmwq_delayed_work, private_timer))) != 0;
}

/* Of a timer, or of a delayed item's. */
#ifdef __cplusplus
extern "C++" {
static inline int timer_pending(const struct cmwq_delayed_timer *timer)
{
	return cmwq_delayed_timer_pending(timer);
}
}
#else
#define timer_pending(timer)                                                          \
	_Generic((timer),                                                             \
		struct cmwq_delayed_timer *: cmwq_delayed_timer_pending,              \
		const struct cmwq_delayed_timer *: cmwq_delayed_timer_pending,        \
		default: timer_pending)(timer)
#endif

/* <time.h> has another of that name. */
#define timer_delete(timer) cmwq_timer_delete(timer)
#define timer_delete_sync_try(timer) try_to_del_timer_sync(timer)
#define add_timer_local(timer) add_timer(timer)
#define add_timer_global(timer) add_timer(timer)
#define del_timer(timer) cmwq_timer_delete(timer)
#define del_timer_sync(timer) timer_delete_sync(timer)
#define from_timer(var, timer, member) container_of(timer, __typeof__(*(var)), member)
#define timer_container_of(var, timer, member) from_timer(var, timer, member)

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: tasklets, as items of
 * the BH workqueue. A tasklet does not run beside itself; one that is scheduled while it is
 * disabled runs when it is enabled. A program that brings its own defines CMWQ_NO_INTERRUPT.
 */
#ifndef CMWQ_LINUX_INTERRUPT_H
#define CMWQ_LINUX_INTERRUPT_H

#include <linux/cmwq_base.h>
#if defined(CMWQ_NO_INTERRUPT) || defined(CMWQ_NO_ATOMIC)
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/interrupt.h"
#include <linux/cmwq_next.h>
#else

#include <linux/atomic.h>
#include <linux/bottom_half.h>
#include <linux/bug.h>
#include <linux/container_of.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

/*
 * All threads change and read `state` and `count` in one order. A run sets its flag and then
 * checks whether the tasklet is disabled; the thread that disables it counts and then checks
 * whether it runs. In the same way the thread that enables it sees a run that has found it
 * disabled: the tasklet is still scheduled.
 */
struct tasklet_struct {
	unsigned long state;
	/* How often the tasklet is disabled. */
	atomic_t count;
	bool use_callback;
	void (*func)(unsigned long data);
	void (*callback)(struct tasklet_struct *tasklet);
	unsigned long data;
	struct cmwq_work cmwq_work;
};

/*
 * Bits of `state`. The last one: a thread waits for the end of the tasklet, which is not scheduled
 * meanwhile.
 */
enum { TASKLET_STATE_SCHED, TASKLET_STATE_RUN, CMWQ_TASKLET_KILLED };

#define CMWQ_TASKLET_BIT(name) (1ul << (name))

static inline unsigned long cmwq_tasklet_clear(struct tasklet_struct *t, unsigned long bits)
{
	return __atomic_fetch_and(&t->state, ~bits, __ATOMIC_SEQ_CST) & bits;
}

static inline bool cmwq_tasklet_is(struct tasklet_struct *t, int bit)
{
	return (__atomic_load_n(&t->state, __ATOMIC_SEQ_CST) & CMWQ_TASKLET_BIT(bit)) != 0;
}

static inline bool cmwq_tasklet_is_disabled(struct tasklet_struct *t)
{
	return __atomic_load_n(&t->count.counter, __ATOMIC_SEQ_CST) != 0;
}

static inline void cmwq_tasklet_ends(void *tasklet)
{
	cmwq_tasklet_clear((struct tasklet_struct *)tasklet, CMWQ_TASKLET_BIT(TASKLET_STATE_RUN));
}

static inline void cmwq_tasklet_run(struct cmwq_work *work)
{
	struct tasklet_struct *t = CMWQ_CONTAINER_OF(work, struct tasklet_struct, cmwq_work);

	__atomic_fetch_or(&t->state, CMWQ_TASKLET_BIT(TASKLET_STATE_RUN), __ATOMIC_SEQ_CST);
	/* The flag is cleared also if the tasklet's function ends its thread. */
	pthread_cleanup_push(cmwq_tasklet_ends, t);
	/* The tasklet is no longer scheduled, so a thread can schedule it again. */
	if (!cmwq_tasklet_is_disabled(t) &&
		cmwq_tasklet_clear(t, CMWQ_TASKLET_BIT(TASKLET_STATE_SCHED))) {
		if (t->use_callback)
			t->callback(t);
		else
			t->func(t->data);
	}
	pthread_cleanup_pop(1);
}

#define CMWQ_TASKLET_INIT(count, is_new, func, callback) \
	{0, ATOMIC_INIT(count), (is_new), (func), (callback), 0, CMWQ_WORK_INIT(cmwq_tasklet_run)}
#define DECLARE_TASKLET(name, fn) struct tasklet_struct name = CMWQ_TASKLET_INIT(0, true, NULL, fn)
#define DECLARE_TASKLET_DISABLED(name, fn) \
	struct tasklet_struct name = CMWQ_TASKLET_INIT(1, true, NULL, fn)
#define DECLARE_TASKLET_OLD(name, fn) \
	struct tasklet_struct name = CMWQ_TASKLET_INIT(0, false, fn, NULL)
#define DECLARE_TASKLET_DISABLED_OLD(name, fn) \
	struct tasklet_struct name = CMWQ_TASKLET_INIT(1, false, fn, NULL)
#define from_tasklet(var, tasklet, member) container_of(tasklet, __typeof__(*(var)), member)

static inline void cmwq_tasklet_begin(struct tasklet_struct *t, bool use_callback)
{
	t->state = 0;
	t->count.counter = 0;
	t->use_callback = use_callback;
	t->func = NULL;
	t->callback = NULL;
	t->data = 0;
	cmwq_init_work(&t->cmwq_work, cmwq_tasklet_run);
}

static inline void tasklet_setup(struct tasklet_struct *t,
	void (*callback)(struct tasklet_struct *tasklet))
{
	cmwq_tasklet_begin(t, true);
	t->callback = callback;
}

static inline void tasklet_init(struct tasklet_struct *t, void (*func)(unsigned long data),
	unsigned long data)
{
	cmwq_tasklet_begin(t, false);
	t->func = func;
	t->data = data;
}

static inline void cmwq_tasklet_queue(struct tasklet_struct *t)
{
	cmwq_queue_work(cmwq_system_workqueue(CMWQ_SYSTEM_BH), &t->cmwq_work);
}

/*
 * The tasklet runs once, however often threads have scheduled it, and sees what the caller did
 * before.
 */
static inline void tasklet_schedule(struct tasklet_struct *t)
{
	unsigned long was = __atomic_load_n(&t->state, __ATOMIC_SEQ_CST);

	do {
		if (was & CMWQ_TASKLET_BIT(CMWQ_TASKLET_KILLED))
			return;
	} while (!__atomic_compare_exchange_n(&t->state, &was,
		was | CMWQ_TASKLET_BIT(TASKLET_STATE_SCHED), false, __ATOMIC_SEQ_CST,
		__ATOMIC_SEQ_CST));
	if (!(was & CMWQ_TASKLET_BIT(TASKLET_STATE_SCHED)))
		cmwq_tasklet_queue(t);
}

#define tasklet_hi_schedule(t) tasklet_schedule(t)

/* Whether its own function asks, which would wait for itself: that warns. */
static inline bool cmwq_tasklet_is_own(struct tasklet_struct *t)
{
	return WARN_ONCE(cmwq_current_work() == &t->cmwq_work, "a tasklet waits for its own end\n");
}

/* While it runs. From its own function it warns and returns. */
static inline void tasklet_unlock_wait(struct tasklet_struct *t)
{
	if (cmwq_tasklet_is_own(t))
		return;
	while (cmwq_tasklet_is(t, TASKLET_STATE_RUN))
		sched_yield();
}

#define tasklet_unlock_spin_wait(t) tasklet_unlock_wait(t)

static inline void tasklet_disable_nosync(struct tasklet_struct *t)
{
	__atomic_fetch_add(&t->count.counter, 1, __ATOMIC_SEQ_CST);
}

/*
 * When this returns the tasklet does not run, and it runs again only when it was enabled as often
 * as it was disabled. If the tasklet's own function calls this, it warns and waits for no run.
 */
static inline void tasklet_disable(struct tasklet_struct *t)
{
	tasklet_disable_nosync(t);
	tasklet_unlock_wait(t);
}

#define tasklet_disable_in_atomic(t) tasklet_disable(t)

static inline void tasklet_enable(struct tasklet_struct *t)
{
	if (__atomic_fetch_sub(&t->count.counter, 1, __ATOMIC_SEQ_CST) == 1 &&
		cmwq_tasklet_is(t, TASKLET_STATE_SCHED))
		cmwq_tasklet_queue(t);
}

/*
 * Waits until the tasklet has run if it is scheduled; a disabled one is then no longer scheduled.
 * If the tasklet's own function calls this, it warns and waits for nothing, and the tasklet is no
 * longer scheduled.
 */
static inline void tasklet_kill(struct tasklet_struct *t)
{
	if (cmwq_tasklet_is_own(t)) {
		cmwq_cancel_work(&t->cmwq_work);
		cmwq_tasklet_clear(t, CMWQ_TASKLET_BIT(TASKLET_STATE_SCHED));
		return;
	}
	while (__atomic_fetch_or(&t->state, CMWQ_TASKLET_BIT(CMWQ_TASKLET_KILLED),
		       __ATOMIC_SEQ_CST) &
		CMWQ_TASKLET_BIT(CMWQ_TASKLET_KILLED))
		sched_yield();
	while (cmwq_tasklet_is(t, TASKLET_STATE_SCHED) && !cmwq_tasklet_is_disabled(t))
		if (!cmwq_flush_work_as_kernel(&t->cmwq_work))
			sched_yield();
	/* What an enabling has queued besides. */
	cmwq_cancel_work_sync(&t->cmwq_work);
	cmwq_tasklet_clear(t,
		CMWQ_TASKLET_BIT(TASKLET_STATE_SCHED) | CMWQ_TASKLET_BIT(CMWQ_TASKLET_KILLED));
}

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: work items and delayed
 * ones, and what is done with a single one. <linux/workqueue.h> includes it, and has the
 * workqueues.
 */
#ifndef CMWQ_LINUX_CMWQ_WORK_H
#define CMWQ_LINUX_CMWQ_WORK_H

#include <linux/cmwq_base.h>
#include <linux/types.h>
#include <linux/atomic.h>
#include <linux/container_of.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- work items ---- */

struct workqueue_struct;
struct work_struct;
typedef void (*work_func_t)(struct work_struct *work);

/*
 * The same memory as struct cmwq_work: 48 bytes, zeros and `func` are an idle item. `data`, `entry`
 * and `func` stand where the kernel has them. Of `data` bit 0 says that the item is pending;
 * `entry` is the workqueue's and says nothing.
 */
struct work_struct {
#ifdef CMWQ_NO_ATOMIC
	unsigned long data;
#else
	atomic_long_t data;
#endif
#ifdef CMWQ_NO_LIST_HEAD
	struct {
		struct work_struct *next, *prev;
	} entry;
#else
	struct list_head entry;
#endif
	work_func_t func;
	uint64_t cmwq_place;
	uint64_t cmwq_reserved;
};

/* The members that code reads of a delayed item's timer. */
struct cmwq_delayed_timer {
	uint64_t cmwq_key;
	/*
	 * In jiffies of a millisecond, whatever the program's own are; see
	 * cmwq_delayed_work_left_ns().
	 */
	unsigned long expires;
};

/* The same memory as struct cmwq_delayed_work: 80 bytes. */
struct delayed_work {
	struct work_struct work;
	struct cmwq_delayed_timer timer;
	uint64_t cmwq_reserved[2];
};

struct execute_work {
	struct work_struct work;
};

CMWQ_ASSERT(sizeof(struct work_struct) == sizeof(struct cmwq_work), "layout of work_struct");
CMWQ_ASSERT(offsetof(struct work_struct, data) == 0 && offsetof(struct work_struct, entry) == 8,
	"layout of work_struct");
CMWQ_ASSERT(offsetof(struct work_struct, func) == 24, "layout of work_struct");
CMWQ_ASSERT(sizeof(struct delayed_work) == sizeof(struct cmwq_delayed_work),
	"layout of delayed_work");
CMWQ_ASSERT(offsetof(struct delayed_work, timer) ==
		offsetof(struct cmwq_delayed_work, private_timer),
	"layout of delayed_work");
CMWQ_ASSERT(offsetof(struct cmwq_delayed_timer, expires) == 8, "layout of delayed_work");

/*
 * For programs that also call <cmwq.h> themselves, whose types are others: these turn a pointer
 * into that to the same thing there, such as in cmwq_try_queue_work(cmwq_of_workqueue(wq),
 * cmwq_of_work(&work)). They cost nothing.
 */
static inline struct cmwq_work *cmwq_of_work(const struct work_struct *work)
{
	return (struct cmwq_work *)(uintptr_t)work;
}

static inline struct cmwq_delayed_work *cmwq_of_delayed(const struct delayed_work *dwork)
{
	return (struct cmwq_delayed_work *)(uintptr_t)dwork;
}

static inline struct cmwq_workqueue *cmwq_of_workqueue(const struct workqueue_struct *wq)
{
	return (struct cmwq_workqueue *)(uintptr_t)wq;
}

static inline struct workqueue_struct *cmwq_to_workqueue(struct cmwq_workqueue *wq)
{
	return (struct workqueue_struct *)(uintptr_t)wq;
}

static inline struct delayed_work *to_delayed_work(struct work_struct *work)
{
	return (struct delayed_work *)(void *)((char *)work - offsetof(struct delayed_work, work));
}

#define WORK_STRUCT_PENDING_BIT 0
#define WORK_STRUCT_PENDING (1UL << WORK_STRUCT_PENDING_BIT)
#ifdef CMWQ_NO_ATOMIC
#define work_data_bits(work) (&(work)->data)
#else
#define work_data_bits(work) ((unsigned long *)&(work)->data.counter)
#endif
#ifdef CMWQ_NO_ATOMIC
#define WORK_DATA_INIT() 0
#else
#define WORK_DATA_INIT() ATOMIC_LONG_INIT(0)
#endif
#define WORK_DATA_STATIC_INIT() WORK_DATA_INIT()

#define __WORK_INITIALIZER(name, fn) {WORK_DATA_INIT(), {NULL, NULL}, (fn), 0, 0}
#define __DELAYED_WORK_INITIALIZER(name, fn, timer_flags) \
	{__WORK_INITIALIZER((name).work, fn), {0, 0}, {0, 0}}
#define DECLARE_WORK(name, fn) struct work_struct name = __WORK_INITIALIZER(name, fn)
#define DECLARE_DELAYED_WORK(name, fn) \
	struct delayed_work name = __DELAYED_WORK_INITIALIZER(name, fn, 0)
#define DECLARE_DEFERRABLE_WORK(name, fn) DECLARE_DELAYED_WORK(name, fn)

static inline void cmwq_init_work_struct(struct work_struct *work, work_func_t func)
{
#ifdef CMWQ_NO_ATOMIC
	work->data = 0;
#else
	work->data.counter = 0;
#endif
	work->entry.next = NULL;
	work->entry.prev = NULL;
	work->func = func;
	work->cmwq_place = 0;
	work->cmwq_reserved = 0;
}

static inline void cmwq_init_delayed_work_struct(struct delayed_work *dwork, work_func_t func)
{
	cmwq_init_work_struct(&dwork->work, func);
	dwork->timer.cmwq_key = 0;
	dwork->timer.expires = 0;
	dwork->cmwq_reserved[0] = 0;
	dwork->cmwq_reserved[1] = 0;
}

#define INIT_WORK(work, fn) cmwq_init_work_struct((work), (fn))
#define __INIT_WORK(work, fn, onstack) INIT_WORK((work), (fn))
#define INIT_WORK_KEY(work, fn, key) ((void)(key), INIT_WORK((work), (fn)))
#define __INIT_DELAYED_WORK(dwork, fn, timer_flags) INIT_DELAYED_WORK((dwork), (fn))
#define INIT_WORK_ONSTACK(work, fn) INIT_WORK((work), (fn))
#define INIT_WORK_ONSTACK_KEY(work, fn, key) ((void)(key), INIT_WORK((work), (fn)))
#define INIT_DELAYED_WORK(dwork, fn) cmwq_init_delayed_work_struct((dwork), (fn))
#define INIT_DELAYED_WORK_ONSTACK(dwork, fn) INIT_DELAYED_WORK((dwork), (fn))
#define INIT_DEFERRABLE_WORK(dwork, fn) INIT_DELAYED_WORK((dwork), (fn))
#define INIT_DEFERRABLE_WORK_ONSTACK(dwork, fn) INIT_DELAYED_WORK((dwork), (fn))

static inline void destroy_work_on_stack(struct work_struct *work)
{
	(void)work;
}

static inline void destroy_delayed_work_on_stack(struct delayed_work *dwork)
{
	(void)dwork;
}

/* ---- one item ---- */

/*
 * Waits also for an item that cannot begin before the calling one ends, with a warning, since code
 * of the kernel may free it afterwards whatever the answer is.
 */
static inline bool flush_work(struct work_struct *work)
{
	return cmwq_flush_work_as_kernel(cmwq_of_work(work));
}

static inline bool cancel_work(struct work_struct *work)
{
	return cmwq_cancel_work(cmwq_of_work(work));
}

static inline bool cancel_work_sync(struct work_struct *work)
{
	return cmwq_cancel_work_sync(cmwq_of_work(work));
}

static inline bool disable_work(struct work_struct *work)
{
	return cmwq_disable_work(cmwq_of_work(work));
}

static inline bool disable_work_sync(struct work_struct *work)
{
	return cmwq_disable_work_sync(cmwq_of_work(work));
}

static inline bool enable_work(struct work_struct *work)
{
	return cmwq_enable_work(cmwq_of_work(work));
}

static inline bool enable_and_queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	return cmwq_enable_and_queue_work(cmwq_of_workqueue(wq), cmwq_of_work(work));
}

static inline bool flush_delayed_work(struct delayed_work *dwork)
{
	return cmwq_flush_delayed_work_as_kernel(cmwq_of_delayed(dwork));
}

static inline bool cancel_delayed_work(struct delayed_work *dwork)
{
	return cmwq_cancel_delayed_work(cmwq_of_delayed(dwork));
}

static inline bool cancel_delayed_work_sync(struct delayed_work *dwork)
{
	return cmwq_cancel_delayed_work_sync(cmwq_of_delayed(dwork));
}

static inline bool disable_delayed_work(struct delayed_work *dwork)
{
	return cmwq_disable_delayed_work(cmwq_of_delayed(dwork));
}

static inline bool disable_delayed_work_sync(struct delayed_work *dwork)
{
	return cmwq_disable_delayed_work_sync(cmwq_of_delayed(dwork));
}

static inline bool enable_delayed_work(struct delayed_work *dwork)
{
	return cmwq_enable_delayed_work(cmwq_of_delayed(dwork));
}

static inline bool work_pending(const struct work_struct *work)
{
	return cmwq_work_pending(cmwq_of_work(work));
}

static inline bool delayed_work_pending(const struct delayed_work *dwork)
{
	return work_pending(&dwork->work);
}

static inline unsigned int work_busy(const struct work_struct *work)
{
	return cmwq_work_busy(cmwq_of_work(work));
}

/* Finds the structure in which an item is embedded, by a variable of its type. */
#define from_work(var, work, member) container_of(work, __typeof__(*(var)), member)

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: workqueues under the
 * kernel's names. Code written for the kernel's interface compiles against this and behaves the
 * same, but for what docs/c.md lists. Everything is a thin layer over <cmwq.h>, where ownership,
 * threads, return values and errors are described. Delays are in jiffies, of a millisecond here.
 *
 * A program that brings its own of something makes ours step aside, and pass on to the next header
 * of that name: CMWQ_NO_CONTAINER_OF, CMWQ_NO_TYPES, CMWQ_NO_LIST_HEAD, CMWQ_NO_JIFFIES,
 * CMWQ_NO_CPUMASK (workqueue attributes go with it), CMWQ_NO_COMPLETION, CMWQ_NO_ERR,
 * CMWQ_NO_KERNEL_MACROS, and so on for each neighbour; CMWQ_NO_NEIGHBOURS for all of these;
 * CMWQ_NO_SYSTEM_WORKQUEUES.
 */
#ifndef CMWQ_LINUX_WORKQUEUE_H
#define CMWQ_LINUX_WORKQUEUE_H

#include <linux/cmwq_base.h>
#include <errno.h>
#include <linux/types.h>
/* Code finds these headers, too, when it includes the kernel's header of this name. */
#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/lockdep.h>
/* Timers count in the jiffies of this library. */
#if !defined(CMWQ_NO_TYPES) && !defined(CMWQ_NO_JIFFIES)
#include <linux/timer.h>
#endif
#include <linux/container_of.h>
#include <linux/cmwq_work.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/cmwq_delay.h>
#include <linux/rcupdate.h>
#include <stdarg.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- workqueues ---- */

enum wq_flags {
	WQ_BH = CMWQ_WQ_BH,
	WQ_UNBOUND = CMWQ_WQ_UNBOUND,
	WQ_FREEZABLE = CMWQ_WQ_FREEZABLE,
	WQ_MEM_RECLAIM = CMWQ_WQ_MEM_RECLAIM,
	WQ_HIGHPRI = CMWQ_WQ_HIGHPRI,
	WQ_CPU_INTENSIVE = CMWQ_WQ_CPU_INTENSIVE,
	WQ_SYSFS = CMWQ_WQ_SYSFS,
	WQ_POWER_EFFICIENT = CMWQ_WQ_POWER_EFFICIENT,
	WQ_PERCPU = CMWQ_WQ_PERCPU
};

enum wq_consts {
	WQ_MAX_ACTIVE = CMWQ_WQ_MAX_ACTIVE,
	WQ_UNBOUND_MAX_ACTIVE = CMWQ_WQ_MAX_ACTIVE,
	WQ_DFL_ACTIVE = CMWQ_WQ_DFL_ACTIVE,
	WQ_DFL_MIN_ACTIVE = 8
};

/* Macros, so that a program may test for them. */
#define WORK_CPU_UNBOUND CMWQ_CPU_ANY
#define WORK_BUSY_PENDING CMWQ_WORK_BUSY_PENDING
#define WORK_BUSY_RUNNING CMWQ_WORK_BUSY_RUNNING
#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE CMWQ_NODE_ANY
#endif

#if defined(__GNUC__)
#define CMWQ_PRINTF(at, args) __attribute__((__format__(__printf__, at, args), __unused__))
#else
#define CMWQ_PRINTF(at, args)
#endif

CMWQ_PRINTF(4, 0)
static inline struct workqueue_struct *cmwq_valloc_workqueue(bool ordered, unsigned int flags,
	int max_active, const char *fmt, va_list args)
{
	char text[128] = "", *name = fmt ? text : NULL;

	if (fmt)
		vsnprintf(text, sizeof(text), fmt, args);
	return cmwq_to_workqueue(ordered ? cmwq_alloc_ordered_workqueue(name, flags)
					 : cmwq_alloc_workqueue(name, flags, max_active));
}

/* Returns NULL on failure and sets errno: see cmwq_alloc_workqueue(). */
CMWQ_PRINTF(1, 4)
static CMWQ_MUST_CHECK struct workqueue_struct *alloc_workqueue(const char *fmt, unsigned int flags,
	int max_active, ...)
{
	struct workqueue_struct *wq;
	va_list args;

	va_start(args, max_active);
	wq = cmwq_valloc_workqueue(false, flags, max_active, fmt, args);
	va_end(args);
	return wq;
}

CMWQ_PRINTF(1, 3)
static CMWQ_MUST_CHECK struct workqueue_struct *alloc_ordered_workqueue(const char *fmt,
	unsigned int flags, ...)
{
	struct workqueue_struct *wq;
	va_list args;

	va_start(args, flags);
	wq = cmwq_valloc_workqueue(true, flags, 1, fmt, args);
	va_end(args);
	return wq;
}

/* The map is for a lock checker, which this library does not have. */
struct lockdep_map;

CMWQ_PRINTF(1, 5)
static CMWQ_MUST_CHECK struct workqueue_struct *alloc_workqueue_lockdep_map(const char *fmt,
	unsigned int flags, int max_active, struct lockdep_map *map, ...)
{
	struct workqueue_struct *wq;
	va_list args;

	va_start(args, map);
	wq = cmwq_valloc_workqueue(false, flags, max_active, fmt, args);
	va_end(args);
	return wq;
}

CMWQ_PRINTF(1, 4)
static CMWQ_MUST_CHECK struct workqueue_struct *alloc_ordered_workqueue_lockdep_map(const char *fmt,
	unsigned int flags, struct lockdep_map *map, ...)
{
	struct workqueue_struct *wq;
	va_list args;

	va_start(args, map);
	wq = cmwq_valloc_workqueue(true, flags, 1, fmt, args);
	va_end(args);
	return wq;
}

/* Bytes of names and descriptions that are kept, with the 0. */
#define WQ_NAME_LEN 32
#define WORKER_DESC_LEN 32

/* The old constructors. */
static inline CMWQ_MUST_CHECK struct workqueue_struct *create_workqueue(const char *name)
{
	return cmwq_to_workqueue(cmwq_alloc_workqueue(name, WQ_PERCPU | WQ_MEM_RECLAIM, 1));
}

static inline CMWQ_MUST_CHECK struct workqueue_struct *create_freezable_workqueue(const char *name)
{
	return cmwq_to_workqueue(
		cmwq_alloc_workqueue(name, WQ_UNBOUND | WQ_FREEZABLE | WQ_MEM_RECLAIM, 1));
}

static inline CMWQ_MUST_CHECK struct workqueue_struct *create_singlethread_workqueue(
	const char *name)
{
	return cmwq_to_workqueue(cmwq_alloc_ordered_workqueue(name, WQ_MEM_RECLAIM));
}

static inline void destroy_workqueue(struct workqueue_struct *wq)
{
	cmwq_destroy_workqueue(cmwq_of_workqueue(wq));
}

static inline void flush_workqueue(struct workqueue_struct *wq)
{
	cmwq_flush_workqueue(cmwq_of_workqueue(wq));
}

static inline void __flush_workqueue(struct workqueue_struct *wq)
{
	flush_workqueue(wq);
}

static inline void drain_workqueue(struct workqueue_struct *wq)
{
	cmwq_drain_workqueue(cmwq_of_workqueue(wq));
}

static inline void workqueue_set_max_active(struct workqueue_struct *wq, int max_active)
{
	cmwq_workqueue_set_max_active(cmwq_of_workqueue(wq), max_active);
}

static inline void workqueue_set_min_active(struct workqueue_struct *wq, int min_active)
{
	cmwq_workqueue_set_min_active(cmwq_of_workqueue(wq), min_active);
}

static inline bool workqueue_congested(int cpu, struct workqueue_struct *wq)
{
	return cmwq_workqueue_congested(cpu, cmwq_of_workqueue(wq));
}

/* Tools can inspect every workqueue, so nothing is left to do. */
static inline int workqueue_sysfs_register(struct workqueue_struct *wq)
{
	(void)wq;
	return 0;
}

static inline void show_all_workqueues(void)
{
	cmwq_show_all_workqueues();
}

static inline void show_freezable_workqueues(void)
{
	cmwq_show_freezable_workqueues();
}

/* ---- system workqueues ---- */

#ifndef CMWQ_NO_SYSTEM_WORKQUEUES
#define CMWQ_SYSTEM(name) (cmwq_to_workqueue(cmwq_system_##name##_wq))
#define system_percpu_wq CMWQ_SYSTEM(percpu)
#define system_highpri_wq CMWQ_SYSTEM(highpri)
#define system_long_wq CMWQ_SYSTEM(long)
#define system_dfl_wq CMWQ_SYSTEM(dfl)
#define system_dfl_long_wq CMWQ_SYSTEM(dfl_long)
#define system_freezable_wq CMWQ_SYSTEM(freezable)
#define system_power_efficient_wq CMWQ_SYSTEM(power_efficient)
#define system_freezable_power_efficient_wq CMWQ_SYSTEM(freezable_power_efficient)
#define system_bh_wq CMWQ_SYSTEM(bh)
#define system_bh_highpri_wq CMWQ_SYSTEM(bh_highpri)
/*
 * Deprecated: the library warns of the first work that a thread queues on either, once in a
 * process.
 */
#define system_wq CMWQ_SYSTEM(deprecated)
#define system_unbound_wq CMWQ_SYSTEM(deprecated_unbound)
#endif

/* ---- queueing ---- */

static inline bool queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	return cmwq_queue_work(cmwq_of_workqueue(wq), cmwq_of_work(work));
}

static inline bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	return cmwq_queue_work_on(cpu, cmwq_of_workqueue(wq), cmwq_of_work(work));
}

static inline bool queue_work_node(int node, struct workqueue_struct *wq, struct work_struct *work)
{
	return cmwq_queue_work_node(node, cmwq_of_workqueue(wq), cmwq_of_work(work));
}

static inline bool queue_delayed_work(struct workqueue_struct *wq, struct delayed_work *dwork,
	unsigned long delay)
{
	return cmwq_queue_delayed_work_ns(cmwq_of_workqueue(wq), cmwq_of_delayed(dwork),
		cmwq_jiffies_to_ns(delay));
}

static inline bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq,
	struct delayed_work *dwork, unsigned long delay)
{
	return cmwq_queue_delayed_work_on_ns(cpu, cmwq_of_workqueue(wq), cmwq_of_delayed(dwork),
		cmwq_jiffies_to_ns(delay));
}

static inline bool mod_delayed_work(struct workqueue_struct *wq, struct delayed_work *dwork,
	unsigned long delay)
{
	return cmwq_mod_delayed_work_ns(cmwq_of_workqueue(wq), cmwq_of_delayed(dwork),
		cmwq_jiffies_to_ns(delay));
}

static inline bool mod_delayed_work_on(int cpu, struct workqueue_struct *wq,
	struct delayed_work *dwork, unsigned long delay)
{
	return cmwq_mod_delayed_work_on_ns(cpu, cmwq_of_workqueue(wq), cmwq_of_delayed(dwork),
		cmwq_jiffies_to_ns(delay));
}

#ifndef CMWQ_NO_SYSTEM_WORKQUEUES
static inline bool schedule_work(struct work_struct *work)
{
	return queue_work(system_percpu_wq, work);
}

static inline bool schedule_work_on(int cpu, struct work_struct *work)
{
	return queue_work_on(cpu, system_percpu_wq, work);
}

static inline bool schedule_delayed_work(struct delayed_work *dwork, unsigned long delay)
{
	return queue_delayed_work(system_percpu_wq, dwork, delay);
}

static inline bool schedule_delayed_work_on(int cpu, struct delayed_work *dwork,
	unsigned long delay)
{
	return queue_delayed_work_on(cpu, system_percpu_wq, dwork, delay);
}

/* Obsolete: the library warns, since the caller waits for the work of other code, too. */
static inline void flush_scheduled_work(void)
{
	flush_workqueue(system_percpu_wq);
}
#endif

/* ---- items that wait for a grace period ---- */

#ifdef CMWQ_HAS_RCU
struct rcu_work {
	/* The item is pending on a timer that never fires while it waits for the grace period. */
	union {
		struct work_struct work;
		struct delayed_work cmwq_dwork;
	};
	struct rcu_head rcu;
	struct workqueue_struct *wq;
};

#define INIT_RCU_WORK(rwork, fn) INIT_DELAYED_WORK(&(rwork)->cmwq_dwork, (fn))
#define INIT_RCU_WORK_ONSTACK(rwork, fn) INIT_RCU_WORK((rwork), (fn))

static inline struct rcu_work *to_rcu_work(struct work_struct *work)
{
	return (struct rcu_work *)(void *)((char *)work - offsetof(struct rcu_work, work));
}

static inline void cmwq_rcu_work_ready(struct rcu_head *head)
{
	struct rcu_work *rwork = (struct rcu_work *)(void *)((char *)head -
		offsetof(struct rcu_work, rcu));

	cmwq_mod_delayed_work_ns(cmwq_of_workqueue(rwork->wq), cmwq_of_delayed(&rwork->cmwq_dwork),
		0);
}

/*
 * Queues the item when all read-side sections that have begun have ended. The item is pending
 * meanwhile.
 */
static inline bool queue_rcu_work(struct workqueue_struct *wq, struct rcu_work *rwork)
{
	static char cmwq_said;
	/* A year: the callback comes earlier. */
	int fate = cmwq_try_queue_delayed_work_ns(cmwq_of_workqueue(wq),
		cmwq_of_delayed(&rwork->cmwq_dwork), 31536000000000000ull);

	if (fate == CMWQ_QUEUED_DISABLED && !__atomic_test_and_set(&cmwq_said, __ATOMIC_RELAXED))
		fprintf(stderr,
			"queue_rcu_work: the item is disabled, which an rcu_work must not be: it "
			"is not queued\n");
	if (fate != CMWQ_QUEUED_ACCEPTED)
		return false;
#if defined(CMWQ_TSAN) || defined(CMWQ_VALGRIND)
	/*
	 * The callback of the grace period before has read it, and another thread has queued the
	 * item since.
	 */
	cmwq_told_acquire(&rwork->cmwq_dwork);
#endif
	rwork->wq = wq;
	call_rcu(&rwork->rcu, cmwq_rcu_work_ready);
	return true;
}

/*
 * Within a read-side section, for which a pending item waits, rcu_barrier() warns, and this does
 * not wait.
 */
static inline bool flush_rcu_work(struct rcu_work *rwork)
{
	if (!work_pending(&rwork->work))
		return flush_work(&rwork->work);
	rcu_barrier();
	flush_work(&rwork->work);
	return true;
}
#endif

/* ---- the calling thread, and every CPU ---- */

static inline struct work_struct *current_work(void)
{
	return (struct work_struct *)(void *)cmwq_current_work();
}

static inline bool current_is_workqueue_rescuer(void)
{
	return cmwq_current_is_rescuer();
}

static inline bool current_is_workqueue_mem_reclaim(void)
{
	return cmwq_current_is_mem_reclaim();
}

CMWQ_PRINTF(1, 2)
static void set_worker_desc(const char *fmt, ...)
{
	char desc[32] = "";
	va_list args;

	va_start(args, fmt);
	vsnprintf(desc, sizeof(desc), fmt, args);
	va_end(args);
	cmwq_set_worker_desc(desc);
}

static inline long work_on_cpu(int cpu, long (*fn)(void *), void *arg)
{
	return cmwq_work_on_cpu(cpu, fn, arg);
}

static inline long work_on_cpu_safe(int cpu, long (*fn)(void *), void *arg)
{
	return cmwq_work_on_cpu(cpu, fn, arg);
}

#define work_on_cpu_key(cpu, fn, arg, key) ((void)(key), work_on_cpu((cpu), (fn), (arg)))
#define work_on_cpu_safe_key(cpu, fn, arg, key) ((void)(key), work_on_cpu_safe((cpu), (fn), (arg)))

static inline CMWQ_MUST_CHECK int schedule_on_each_cpu(work_func_t func)
{
	return cmwq_schedule_on_each_cpu((cmwq_work_fn)(void (*)(void))func);
}

/* Every thread may block, so the function runs at once. */
static inline int execute_in_process_context(work_func_t fn, struct execute_work *ew)
{
	fn(&ew->work);
	return 0;
}

/* ---- attributes ---- */

#ifdef CMWQ_HAS_CPUMASK
enum wq_affn_scope {
	WQ_AFFN_DFL = CMWQ_AFFN_DFL,
	WQ_AFFN_CPU = CMWQ_AFFN_CPU,
	WQ_AFFN_SMT = CMWQ_AFFN_SMT,
	WQ_AFFN_CACHE = CMWQ_AFFN_CACHE,
	WQ_AFFN_CACHE_SHARD = CMWQ_AFFN_CACHE_SHARD,
	WQ_AFFN_NUMA = CMWQ_AFFN_NUMA,
	WQ_AFFN_SYSTEM = CMWQ_AFFN_SYSTEM,
	WQ_AFFN_NR_TYPES
};

/* The same memory as struct cmwq_workqueue_attrs. */
struct workqueue_attrs {
	uint32_t cmwq_size;
	int nice;
	enum wq_affn_scope affn_scope;
	bool affn_strict;
	cpumask_var_t cpumask;
};

CMWQ_ASSERT(sizeof(struct workqueue_attrs) == sizeof(struct cmwq_workqueue_attrs),
	"layout of workqueue_attrs");
CMWQ_ASSERT(offsetof(struct workqueue_attrs, affn_strict) ==
		offsetof(struct cmwq_workqueue_attrs, affinity_strict),
	"layout of workqueue_attrs");
CMWQ_ASSERT(offsetof(struct workqueue_attrs, cpumask) ==
		offsetof(struct cmwq_workqueue_attrs, cpumask),
	"layout of workqueue_attrs");

static inline CMWQ_MUST_CHECK struct workqueue_attrs *alloc_workqueue_attrs(void)
{
	return (struct workqueue_attrs *)(void *)cmwq_alloc_workqueue_attrs();
}

static inline void free_workqueue_attrs(struct workqueue_attrs *attrs)
{
	cmwq_free_workqueue_attrs((struct cmwq_workqueue_attrs *)(void *)attrs);
}

static inline CMWQ_MUST_CHECK int apply_workqueue_attrs(struct workqueue_struct *wq,
	const struct workqueue_attrs *attrs)
{
	return cmwq_apply_workqueue_attrs(cmwq_of_workqueue(wq),
		(const struct cmwq_workqueue_attrs *)(const void *)attrs);
}

static inline CMWQ_MUST_CHECK int workqueue_set_unbound_cpumask(struct cpumask *cpus)
{
	return cmwq_set_unbound_cpumask((const struct cmwq_cpumask *)(const void *)cpus);
}
#endif

/* ---- freezing ---- */

static inline void freeze_workqueues_begin(void)
{
	cmwq_freeze_workqueues_begin();
}

static inline bool freeze_workqueues_busy(void)
{
	return cmwq_freeze_workqueues_busy();
}

static inline void thaw_workqueues(void)
{
	cmwq_thaw_workqueues();
}

#ifdef __cplusplus
}
#endif

#endif

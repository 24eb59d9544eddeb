/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cmwq: concurrency-managed workqueues for user space.
 *
 * A workqueue is a name, a limit and some attributes; it owns no threads. Work items that are queued on it run on worker pools
 * that all workqueues of equal attributes share. Link with -lcmwq (pkg-config cmwq). <linux/workqueue.h>, installed beside this
 * file, has the same under the kernel's names.
 *
 * OWNERSHIP. A work item is the caller's memory: embedded in a structure, static, on the heap or on a stack. cmwq allocates
 * nothing to queue it. From the moment it is queued until its function is called, or it is cancelled, it must neither go away
 * nor move. Its function may free it: it is not touched once the function has been called. One on a stack must be flushed, or
 * cancelled with _sync, before the frame ends. A workqueue belongs to who made it, until cmwq_destroy_workqueue().
 *
 * THREADS. Every function may be called from any thread, also from within work functions, whatever locks the caller holds;
 * none from a signal handler. Those that say "waits" sleep; called by a work function they count as blocking, so that others
 * run meanwhile. Waiting for oneself (flushing a queue from one of its own items, cancelling an item with _sync from its own
 * function) is noticed: it warns and does not wait. A work function must return: it may not call pthread_exit(), longjmp()
 * out, or let a C++ exception out.
 *
 * RETURN VALUES. A function that queues returns true if one new instance was accepted; false if the item was pending already
 * (then nothing changes, and the pending run sees everything that the caller did before) or disabled. A queue that is being
 * drained or destroyed drops items from outside, and true is returned, as the kernel does. Functions that return int return 0,
 * or a negative error number such as -EINVAL; those that return a pointer return NULL and set errno.
 *
 * WRONG USE (NULL, a queue that was destroyed, unknown flags, a CPU that does not exist) is an error that is returned, said once
 * in a warning that names the call, and changes nothing. Functions that return bool return false then and set errno: EINVAL (NULL,
 * misaligned, no function), ESTALE (no such workqueue: destroyed, or never was), ENODEV (no such CPU or node), EPERM (the child of
 * a fork uses its parent's queue), EAGAIN (a thread cannot be created). errno is left alone otherwise.
 *
 * FORK. A child has its parent's workqueues, but not their workers: using them is EPERM. It can make its own, and its system
 * workqueues are its own.
 */
#ifndef CMWQ_H
#define CMWQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CMWQ_VERSION_MAJOR 0
#define CMWQ_VERSION_MINOR 1
#define CMWQ_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ---- work items ---- */

struct cmwq_work;

/* A work function. It is given the item that it was queued with. */
typedef void (*cmwq_work_fn)(struct cmwq_work *work);

/*
 * A work item: 40 bytes, aligned to 8. Initialise it with cmwq_init_work(), CMWQ_WORK_INIT, or zeros and `func`. Initialising
 * one that is queued or runs is a mistake. `func` may be read; the rest is cmwq's.
 */
struct cmwq_work {
	uint32_t private_state;
	uint32_t private_colour;
	uint64_t private_place;
	cmwq_work_fn func;
	struct cmwq_work *private_next;
	struct cmwq_work *private_prev;
};

/* A work item with a timer: 48 bytes, aligned to 8. */
struct cmwq_delayed_work {
	struct cmwq_work work;
	uint64_t private_timer;
};

/* Static initialisers: static struct cmwq_work w = CMWQ_WORK_INIT(fn); */
#define CMWQ_WORK_INIT(fn) {0, 0, 0, (fn), NULL, NULL}
#define CMWQ_DELAYED_WORK_INIT(fn) {CMWQ_WORK_INIT(fn), 0}

static inline void cmwq_init_work(struct cmwq_work *work, cmwq_work_fn func)
{
	work->private_state = 0;
	work->private_colour = 0;
	work->private_place = 0;
	work->func = func;
	work->private_next = NULL;
	work->private_prev = NULL;
}

static inline void cmwq_init_delayed_work(struct cmwq_delayed_work *dwork, cmwq_work_fn func)
{
	cmwq_init_work(&dwork->work, func);
	dwork->private_timer = 0;
}

/* The structure that `member` is embedded in. */
#define CMWQ_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* ---- workqueues ---- */

/* A workqueue. Not to be dereferenced; every use of it is checked, so that one that was destroyed is an error. */
struct cmwq_workqueue;

/* Flags, with the kernel's values. Say CMWQ_WQ_UNBOUND or CMWQ_WQ_PERCPU: neither is warned of and means PERCPU. */
enum cmwq_wq_flags {
	/* Items run on the CPU they were queued from, one at a time, in order, and must not block. Only HIGHPRI and PERCPU go with it. */
	CMWQ_WQ_BH = 1 << 0,
	/* Items run in the pod (the group of CPUs, see the affinity scopes) that they were queued from. */
	CMWQ_WQ_UNBOUND = 1 << 1,
	/* Takes part in cmwq_freeze_workqueues_begin(). */
	CMWQ_WQ_FREEZABLE = 1 << 2,
	/* Has a rescuer thread: gets on even if no thread can be created. */
	CMWQ_WQ_MEM_RECLAIM = 1 << 3,
	/* Nice level -20, as far as permitted. */
	CMWQ_WQ_HIGHPRI = 1 << 4,
	/* Per-CPU: its running items do not keep others from starting. */
	CMWQ_WQ_CPU_INTENSIVE = 1 << 5,
	/* To be inspected and tuned from outside. */
	CMWQ_WQ_SYSFS = 1 << 6,
	/* Per-CPU, but unbound in a process that saves power (CMWQ_POWER_EFFICIENT=1 in the environment). */
	CMWQ_WQ_POWER_EFFICIENT = 1 << 7,
	/* Items run on the CPU that they were queued from. */
	CMWQ_WQ_PERCPU = 1 << 8
};

#define CMWQ_WQ_MAX_ACTIVE 2048
#define CMWQ_WQ_DFL_ACTIVE 1024
/* "Any CPU". */
#define CMWQ_CPU_ANY 8192
/* "Any node". */
#define CMWQ_NODE_ANY (-1)

/*
 * Makes a workqueue. `name` is shown by tools; 31 bytes of it are kept. `max_active`: how many items may be active at the same
 * time (per CPU of a per-CPU queue, for each NUMA node by its share of the CPUs of an unbound one); 0 is the default, 1024; out of
 * 1..2048 is cut to that, with a warning. NULL and errno: EINVAL (flags that do not go together, unknown flags), EAGAIN (its first
 * thread cannot be created), ENOMEM (65536 workqueues exist).
 */
struct cmwq_workqueue *cmwq_alloc_workqueue(const char *name, unsigned int flags, int max_active);
/* As above; its items run one at a time, in the order in which they were queued. FREEZABLE, MEM_RECLAIM, HIGHPRI, SYSFS go with it. */
struct cmwq_workqueue *cmwq_alloc_ordered_workqueue(const char *name, unsigned int flags);
/*
 * Runs everything that is queued (waits), then ends the workqueue. Cancel delayed items before: a timer that fires later is
 * dropped with a warning. From one of the queue's own items it returns at once and ends it on a thread of its own.
 */
int cmwq_destroy_workqueue(struct cmwq_workqueue *wq);
/*
 * Waits until everything queued before the call has run; not for what is queued later, nor for armed timers. -EDEADLK: called from
 * one of the queue's own items.
 */
int cmwq_flush_workqueue(struct cmwq_workqueue *wq);
/* Waits until the queue is empty. Meanwhile only its own items may queue on it; what others queue is dropped. Errors as above. */
int cmwq_drain_workqueue(struct cmwq_workqueue *wq);
/* Changes the limit. -EINVAL: an ordered or BH queue, which have none to change. */
int cmwq_workqueue_set_max_active(struct cmwq_workqueue *wq, int max_active);
/* How many items may be active on each NUMA node in any case; 8 or max_active at first. -EINVAL: not an unordered unbound queue. */
int cmwq_workqueue_set_min_active(struct cmwq_workqueue *wq, int min_active);
/* Whether an item queued from `cpu` (CMWQ_CPU_ANY: from here) would have to wait for a place. A hint. */
bool cmwq_workqueue_congested(int cpu, struct cmwq_workqueue *wq);

/* The workqueues that every process has. Made at first use; they cannot be destroyed. The deprecated two warn once. */
enum cmwq_system {
	CMWQ_SYSTEM_PERCPU,
	CMWQ_SYSTEM_HIGHPRI,
	CMWQ_SYSTEM_LONG,
	CMWQ_SYSTEM_DFL,
	CMWQ_SYSTEM_DFL_LONG,
	CMWQ_SYSTEM_FREEZABLE,
	CMWQ_SYSTEM_POWER_EFFICIENT,
	CMWQ_SYSTEM_FREEZABLE_POWER_EFFICIENT,
	CMWQ_SYSTEM_BH,
	CMWQ_SYSTEM_BH_HIGHPRI,
	CMWQ_SYSTEM_DEPRECATED_WQ,
	CMWQ_SYSTEM_DEPRECATED_UNBOUND_WQ
};
struct cmwq_workqueue *cmwq_system_workqueue(enum cmwq_system which);

/* ---- queueing ---- */

/* Queues `work`, to run near the CPU that the caller is on. */
bool cmwq_queue_work(struct cmwq_workqueue *wq, struct cmwq_work *work);
/* The same, from `cpu`. */
bool cmwq_queue_work_on(int cpu, struct cmwq_workqueue *wq, struct cmwq_work *work);
/* The same, from a CPU of NUMA node `node`, if one of it may be used. Only for unbound queues; on others as cmwq_queue_work(), with a warning. */
bool cmwq_queue_work_node(int node, struct cmwq_workqueue *wq, struct cmwq_work *work);
/*
 * Queues when `delay_ns` nanoseconds have passed, not earlier, and about a millisecond later at most; 0 queues at once. The item is
 * pending meanwhile. An armed timer is not seen by flush, drain and destroy of the workqueue.
 */
bool cmwq_queue_delayed_work_ns(struct cmwq_workqueue *wq, struct cmwq_delayed_work *dwork, uint64_t delay_ns);
bool cmwq_queue_delayed_work_on_ns(int cpu, struct cmwq_workqueue *wq, struct cmwq_delayed_work *dwork, uint64_t delay_ns);
/*
 * Queues when `delay_ns` have passed from now, wherever the item is: a pending instance is moved. true: it was pending. false: it
 * was idle or running (and is queued now), or it is disabled (and is not).
 */
bool cmwq_mod_delayed_work_ns(struct cmwq_workqueue *wq, struct cmwq_delayed_work *dwork, uint64_t delay_ns);
bool cmwq_mod_delayed_work_on_ns(int cpu, struct cmwq_workqueue *wq, struct cmwq_delayed_work *dwork, uint64_t delay_ns);

/* ---- one item ---- */

/* Waits for the pending instance, or else for the running one. false: there was none. */
bool cmwq_flush_work(struct cmwq_work *work);
/* Removes a pending instance; true: one was removed. Does not wait for a running one. */
bool cmwq_cancel_work(struct cmwq_work *work);
/* The same, and waits until the function does not run any more; one that queues itself cannot escape. */
bool cmwq_cancel_work_sync(struct cmwq_work *work);
/* Removes a pending instance; the item cannot be queued until it was enabled as often as it was disabled. true: one was removed. */
bool cmwq_disable_work(struct cmwq_work *work);
/* The same, and waits until the function does not run any more. */
bool cmwq_disable_work_sync(struct cmwq_work *work);
/* true: the item may be queued again. What was refused meanwhile is lost. */
bool cmwq_enable_work(struct cmwq_work *work);
/* Enables, and queues if that made it possible. true: it was queued. */
bool cmwq_enable_and_queue_work(struct cmwq_workqueue *wq, struct cmwq_work *work);
/* Queued or on its timer, and not started. A hint. */
bool cmwq_work_pending(const struct cmwq_work *work);

enum cmwq_work_busy { CMWQ_WORK_BUSY_PENDING = 1, CMWQ_WORK_BUSY_RUNNING = 2 };
/* What the item does: CMWQ_WORK_BUSY_... A hint. */
unsigned int cmwq_work_busy(const struct cmwq_work *work);

/* The same for items with a timer; flush stops the timer and queues at once. */
bool cmwq_flush_delayed_work(struct cmwq_delayed_work *dwork);
bool cmwq_cancel_delayed_work(struct cmwq_delayed_work *dwork);
bool cmwq_cancel_delayed_work_sync(struct cmwq_delayed_work *dwork);
bool cmwq_disable_delayed_work(struct cmwq_delayed_work *dwork);
bool cmwq_disable_delayed_work_sync(struct cmwq_delayed_work *dwork);
bool cmwq_enable_delayed_work(struct cmwq_delayed_work *dwork);

/* ---- the calling thread ---- */

/* The item whose function the calling thread runs; NULL: none. Only to compare with. */
struct cmwq_work *cmwq_current_work(void);
/* Whether the calling thread is a workqueue's rescuer. */
bool cmwq_current_is_rescuer(void);
/* Whether it runs an item of a workqueue that has one. */
bool cmwq_current_is_mem_reclaim(void);
/* Calls `fn(arg)`, which is about to block in something that cmwq does not know of: another item runs meanwhile. */
void cmwq_blocking(void (*fn)(void *arg), void *arg);
/* The number of the CPU that the caller is on: a hint. */
int cmwq_current_cpu(void);

/* ---- every CPU ---- */

/* Runs `fn(arg)` on `cpu`, waits, and returns what it returned. -ENODEV: there is no such CPU. */
long cmwq_work_on_cpu(int cpu, long (*fn)(void *arg), void *arg);
/* Runs `func` once on every CPU, with an item of its own each, and waits for all. 0, -ENOMEM, -EAGAIN. */
int cmwq_schedule_on_each_cpu(cmwq_work_fn func);

/* ---- attributes of unbound workqueues ---- */

#define CMWQ_MAX_CPUS 8192
#define CMWQ_CPUMASK_WORDS (CMWQ_MAX_CPUS / 64)

/* A set of CPUs: CPU n is bit n % 64 of word n / 64. */
struct cmwq_cpumask {
	uint64_t bits[CMWQ_CPUMASK_WORDS];
};

/* How the machine is cut into pods. */
enum cmwq_affinity_scope {
	CMWQ_AFFN_DFL,         /* what the process's default is */
	CMWQ_AFFN_CPU,         /* one CPU each */
	CMWQ_AFFN_SMT,         /* the threads of a core */
	CMWQ_AFFN_CACHE,       /* the CPUs that share a last-level cache */
	CMWQ_AFFN_CACHE_SHARD, /* the same, cut to about eight cores */
	CMWQ_AFFN_NUMA,        /* the CPUs of a NUMA node */
	CMWQ_AFFN_SYSTEM       /* all */
};

/* Made by cmwq_alloc_workqueue_attrs() only: later versions may append to it. */
struct cmwq_workqueue_attrs {
	int nice;                  /* the workers' nice level, -20 to 19 */
	int affinity_scope;        /* enum cmwq_affinity_scope */
	bool affinity_strict;      /* items never run outside their pod */
	struct cmwq_cpumask cpumask; /* CPUs that items may run on */
};

/* The defaults: nice 0, the default scope, not strict, all CPUs. NULL: no memory. */
struct cmwq_workqueue_attrs *cmwq_alloc_workqueue_attrs(void);
/* NULL is allowed. */
void cmwq_free_workqueue_attrs(struct cmwq_workqueue_attrs *attrs);
/* Changes all at once; what is queued already finishes where it is. -EINVAL: not an unbound queue, or a wrong value. Copies `attrs`. */
int cmwq_apply_workqueue_attrs(struct cmwq_workqueue *wq, const struct cmwq_workqueue_attrs *attrs);
/* Reads them. */
int cmwq_get_workqueue_attrs(struct cmwq_workqueue *wq, struct cmwq_workqueue_attrs *attrs);
/* The CPUs on which unbound items of the whole process may run. -EINVAL: none of them exists. */
int cmwq_set_unbound_cpumask(const struct cmwq_cpumask *cpus);
/* The CPUs of the machine, and those that the process may use now. */
int cmwq_possible_cpus(struct cmwq_cpumask *cpus);
int cmwq_online_cpus(struct cmwq_cpumask *cpus);

/* ---- completions ---- */

/* An event that work functions signal and others wait for; counts. 4 bytes; zeros are one that is not done. */
struct cmwq_completion {
	uint32_t private_state;
};

#define CMWQ_COMPLETION_INIT {0}

/* Makes it not done. Nobody may wait meanwhile. */
void cmwq_reinit_completion(struct cmwq_completion *done);
/* Lets one waiter go on, now or later. */
void cmwq_complete(struct cmwq_completion *done);
/* Lets all go on, until it is initialised again. */
void cmwq_complete_all(struct cmwq_completion *done);
/* Waits; in a work function another item runs meanwhile. */
void cmwq_wait_for_completion(struct cmwq_completion *done);
/* The same, for `timeout_ns` nanoseconds at most. false: it was not done. */
bool cmwq_wait_for_completion_timeout_ns(struct cmwq_completion *done, uint64_t timeout_ns);
/* The same, without waiting. */
bool cmwq_try_wait_for_completion(struct cmwq_completion *done);
/* Whether a wait would return at once. */
bool cmwq_completion_done(const struct cmwq_completion *done);

/* ---- the process ---- */

/*
 * Sends warnings (one line each, without a newline) to `handler` instead of to standard error; NULL: back to that. It is called
 * with no lock held, by any thread.
 */
void cmwq_set_warning_handler(void (*handler)(const char *text, void *arg), void *arg);
/* Freezable workqueues start nothing new. What is active goes on: ask _busy() until that is false. */
int cmwq_freeze_workqueues_begin(void);
bool cmwq_freeze_workqueues_busy(void);
int cmwq_thaw_workqueues(void);
/* Writes what is busy to standard error. */
void cmwq_show_all_workqueues(void);
/* Nanoseconds of the clock that delays are counted by. */
uint64_t cmwq_now_ns(void);

#ifdef __cplusplus
}
#endif

/* The layout is part of the ABI. */
#ifdef __cplusplus
#define CMWQ_ASSERT(cond, text) static_assert(cond, text)
#define CMWQ_ALIGNOF(type) alignof(type)
#else
#define CMWQ_ASSERT(cond, text) _Static_assert(cond, text)
#define CMWQ_ALIGNOF(type) _Alignof(type)
#endif
CMWQ_ASSERT(sizeof(void *) == 8, "cmwq is for 64-bit machines");
CMWQ_ASSERT(sizeof(struct cmwq_work) == 40 && CMWQ_ALIGNOF(struct cmwq_work) == 8, "layout of cmwq_work");
CMWQ_ASSERT(offsetof(struct cmwq_work, func) == 16, "layout of cmwq_work");
CMWQ_ASSERT(sizeof(struct cmwq_delayed_work) == 48 && offsetof(struct cmwq_delayed_work, private_timer) == 40, "layout of cmwq_delayed_work");
CMWQ_ASSERT(sizeof(struct cmwq_completion) == 4, "layout of cmwq_completion");
CMWQ_ASSERT(offsetof(struct cmwq_workqueue_attrs, cpumask) == 16 && sizeof(struct cmwq_cpumask) == 1024, "layout of cmwq_workqueue_attrs");
CMWQ_ASSERT(sizeof(struct cmwq_workqueue_attrs) == 1040, "layout of cmwq_workqueue_attrs");

#endif

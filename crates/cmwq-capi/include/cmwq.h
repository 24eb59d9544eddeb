/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cmwq: concurrency-managed workqueues for user space.
 *
 * A workqueue is a name, a limit and some attributes; it owns no threads. Work items that are
 * queued on it run on worker pools that all workqueues of equal attributes share. Link with -lcmwq
 * (pkg-config cmwq). <linux/workqueue.h>, which is installed with it, has the same under the
 * kernel's names.
 *
 * OWNERSHIP. A work item is the caller's memory: embedded in a structure, static, on the heap or on
 * a stack. cmwq allocates nothing to queue it. From the moment it is queued until its function is
 * called, or it is cancelled, it must neither go away nor move. Its function may free it: it is not
 * touched once the function has been called. One on a stack must be flushed, or cancelled with
 * _sync, before the frame ends. A workqueue belongs to its maker, until cmwq_destroy_workqueue().
 *
 * THREADS. Every function may be called from any thread, also from within work functions, whatever
 * locks the caller holds; none from a signal handler, but for cmwq_reset_signal_mask(). Those that
 * say "waits" sleep; called by a work function they count as blocking, so that others run
 * meanwhile. Waiting for oneself (flushing a queue from one of its own items, cancelling an item
 * with _sync from its own function) is noticed: it warns and does not wait. An item counts as the
 * own one if it has the address and the function of the item that the calling thread runs: a
 * function that has freed its item may wait for another item at the same address, unless that has
 * the same function too, for such an item cannot be told from the first one. A work function must
 * not longjmp() out, or let a C++ exception out. With glibc it may end its thread, by
 * pthread_exit() or a cancellation: the item has ended then, and the pool gets another worker.
 *
 * RETURN VALUES. A function that queues returns true if one new instance was accepted; false if the
 * item was pending already (then nothing changes, and the pending run sees everything that the
 * caller did before) or disabled. A queue that is being drained or destroyed drops items from
 * outside, and true is returned, as the kernel does. Functions that return int return 0, or a
 * negative error number such as -EINVAL; those that return a pointer return NULL and set errno.
 *
 * WRONG USE (NULL, a queue that was destroyed, unknown flags) is an error that is returned, said
 * once in a warning that names the call, and changes nothing. Functions that return bool return
 * false then and set errno: EINVAL (NULL, misaligned, no function), ESTALE (no such workqueue:
 * destroyed, or never was), ENODEV (no such CPU), EPERM (the child of a fork uses its parent's
 * queue), EAGAIN (a thread cannot be created). errno is left alone otherwise. An item that is
 * queued on a CPU or node that does not exist is queued as if none had been named, with a warning:
 * false would be read as "pending already".
 *
 * FORK. A child has its parent's workqueues, but not their workers: using them is EPERM. It can
 * make its own, and its system workqueues are its own.
 */
#ifndef CMWQ_H
#define CMWQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CMWQ_VERSION_MAJOR 0
#define CMWQ_VERSION_MINOR 3
#define CMWQ_VERSION_PATCH 0
/*
 * Of the layouts and functions that a compiled program counts on; the number in the library's name.
 * 0 had items of 40 bytes.
 */
#define CMWQ_ABI 1

/*
 * Of functions whose answer a correct program must look at: compilers warn of a call that ignores
 * it.
 */
#define CMWQ_MUST_CHECK __attribute__((__warn_unused_result__))

#ifdef __cplusplus
extern "C" {
#endif

/* ---- work items ---- */

struct cmwq_work;

/* A work function. It is given the item that it was queued with. */
typedef void (*cmwq_work_fn)(struct cmwq_work *work);

/*
 * A work item: 48 bytes, aligned to 8; `func` is at offset 24, as in the kernel's struct.
 * Initialise it with cmwq_init_work(), CMWQ_WORK_INIT, or zeros and `func`. Initialising one that
 * is queued is a mistake. Its own function may initialise it, and queue it again; see docs/c.md for
 * what is lost then. `func` may be read; the rest is cmwq's.
 */
struct cmwq_work {
	uint32_t private_state;
	uint32_t private_colour;
	struct cmwq_work *private_next;
	struct cmwq_work *private_prev;
	cmwq_work_fn func;
	uint64_t private_place;
	uint64_t private_reserved;
};

/* A work item with a timer: 80 bytes, aligned to 8. */
struct cmwq_delayed_work {
	struct cmwq_work work;
	uint64_t private_timer;
	/*
	 * When the timer expires, or has expired, in milliseconds of cmwq_now_ns(). Only to be
	 * read.
	 */
	uint64_t expires_ms;
	uint64_t private_reserved[2];
};

/* Static initialisers: static struct cmwq_work w = CMWQ_WORK_INIT(fn); */
#define CMWQ_WORK_INIT(fn) {0, 0, NULL, NULL, (fn), 0, 0}
#define CMWQ_DELAYED_WORK_INIT(fn) {CMWQ_WORK_INIT(fn), 0, 0, {0, 0}}

static inline void cmwq_init_work(struct cmwq_work *work, cmwq_work_fn func)
{
	work->private_state = 0;
	work->private_colour = 0;
	work->private_next = NULL;
	work->private_prev = NULL;
	work->func = func;
	work->private_place = 0;
	work->private_reserved = 0;
}

static inline void cmwq_init_delayed_work(struct cmwq_delayed_work *dwork, cmwq_work_fn func)
{
	cmwq_init_work(&dwork->work, func);
	dwork->private_timer = 0;
	dwork->expires_ms = 0;
	dwork->private_reserved[0] = 0;
	dwork->private_reserved[1] = 0;
}

/*
 * The offset of `member`, to which `ptr` must point: a pointer to another type is an error when the
 * program is compiled, wherever this header is installed. Qualifiers may differ, and void * is
 * accepted.
 */
#ifdef __cplusplus
extern "C++" {
/* The header does without <type_traits>, so that it may be included within extern "C". */
template <typename CmwqT> struct cmwq_unqualified { typedef CmwqT type; };
template <typename CmwqT> struct cmwq_unqualified<const CmwqT> { typedef CmwqT type; };
template <typename CmwqT> struct cmwq_unqualified<volatile CmwqT> { typedef CmwqT type; };
template <typename CmwqT> struct cmwq_unqualified<const volatile CmwqT> { typedef CmwqT type; };
template <typename CmwqPointer> struct cmwq_pointed;
template <typename CmwqT> struct cmwq_pointed<CmwqT *> {
	typedef typename cmwq_unqualified<CmwqT>::type type;
};
template <typename CmwqA, typename CmwqB> struct cmwq_same { static constexpr bool value = false; };
template <typename CmwqA> struct cmwq_same<CmwqA, CmwqA> { static constexpr bool value = true; };

template <typename CmwqPointer, typename CmwqMember> struct cmwq_points_to {
	typedef typename cmwq_pointed<typename cmwq_unqualified<CmwqPointer>::type>::type pointed;

	static_assert(cmwq_same<pointed, typename cmwq_unqualified<CmwqMember>::type>::value ||
			      cmwq_same<pointed, void>::value,
		      "the pointer must point to a member of this type");
	static constexpr size_t nothing = 0;
};
}
#define CMWQ_TYPE_OF(type, member) __typeof__(static_cast<type *>(nullptr)->member)
#define CMWQ_MEMBER_OFFSET(ptr, type, member) \
	(offsetof(type, member) +                     \
	 cmwq_points_to<__typeof__(ptr), CMWQ_TYPE_OF(type, member)>::nothing)
#else
#define CMWQ_POINTS_TO(ptr, type) \
	__builtin_types_compatible_p(__typeof__(__extension__ *(ptr)), type)
#define CMWQ_TYPE_OF(type, member) __typeof__(((type *)0)->member)
#define CMWQ_MEMBER_OFFSET(ptr, type, member)                                    \
	(offsetof(type, member) + 0 * sizeof(struct {                            \
		_Static_assert(CMWQ_POINTS_TO(ptr, CMWQ_TYPE_OF(type, member)) || \
				       CMWQ_POINTS_TO(ptr, void),                \
			       "the pointer must point to a member of this type"); \
		int cmwq_unused;                                                 \
	}))
#endif

/* The structure that `member` is embedded in. */
#define CMWQ_CONTAINER_OF(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - CMWQ_MEMBER_OFFSET(ptr, type, member)))

/* ---- workqueues ---- */

/*
 * A workqueue. Not to be dereferenced; every use of it is checked, so that one that was destroyed
 * is an error.
 */
struct cmwq_workqueue;

/*
 * Flags, with the kernel's values. Say CMWQ_WQ_UNBOUND or CMWQ_WQ_PERCPU: neither is warned of and
 * means PERCPU.
 */
enum cmwq_wq_flags {
	/*
	 * Items run on the CPU they were queued from, one at a time, in order, and must not block.
	 * Only HIGHPRI and PERCPU go with it.
	 */
	CMWQ_WQ_BH = 1 << 0,
	/*
	 * Items run in the pod (the group of CPUs, see the affinity scopes) that they were queued
	 * from.
	 */
	CMWQ_WQ_UNBOUND = 1 << 1,
	/* Takes part in cmwq_freeze_workqueues_begin(). */
	CMWQ_WQ_FREEZABLE = 1 << 2,
	/* Has a rescuer thread: gets on even if no thread can be created. */
	CMWQ_WQ_MEM_RECLAIM = 1 << 3,
	/* Nice level -20, as far as permitted. */
	CMWQ_WQ_HIGHPRI = 1 << 4,
	/* Per-CPU: its running items do not keep others from starting. */
	CMWQ_WQ_CPU_INTENSIVE = 1 << 5,
	/*
	 * Accepted: every workqueue can be inspected and tuned, by
	 * cmwq_workqueue_write_attribute().
	 */
	CMWQ_WQ_SYSFS = 1 << 6,
	/*
	 * Per-CPU, but unbound in a process that saves power (CMWQ_POWER_EFFICIENT=1 in the
	 * environment).
	 */
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
 * Makes a workqueue. `name` is shown by tools; 31 bytes of it are kept. `max_active`: how many
 * items may be active at the same time (per CPU of a per-CPU queue, for each NUMA node by its share
 * of the CPUs of an unbound one); 0 is the default, 1024 (here only, not in
 * cmwq_workqueue_set_max_active()); a value out of 1..2048 is cut to that, with a warning. NULL and
 * errno: EINVAL (flags that do not go together, unknown flags), EAGAIN (its rescuer, or the first
 * threads of the library, cannot be created), EMFILE (nor can the machine be read), ENOMEM (65536
 * workqueues exist).
 */
CMWQ_MUST_CHECK struct cmwq_workqueue *cmwq_alloc_workqueue(const char *name, unsigned int flags,
	int max_active);
/*
 * As above; its items run one at a time, in the order in which they were queued. FREEZABLE,
 * MEM_RECLAIM, HIGHPRI, SYSFS go with it.
 */
CMWQ_MUST_CHECK struct cmwq_workqueue *cmwq_alloc_ordered_workqueue(const char *name,
	unsigned int flags);
/*
 * Runs everything that is queued (waits), then ends the workqueue. Cancel delayed items before: a
 * timer that fires later is dropped with a warning. From one of the queue's own items it returns at
 * once and ends it on a thread of its own.
 */
int cmwq_destroy_workqueue(struct cmwq_workqueue *wq);
/*
 * Waits until everything queued before the call has run; not for what is queued later, nor for
 * armed timers. -EDEADLK: called from one of the queue's own items, or from an item that the same
 * thread runs while one of those waits for it.
 */
int cmwq_flush_workqueue(struct cmwq_workqueue *wq);
/*
 * Waits until the queue is empty. Meanwhile only its own items may queue on it; what others queue
 * is dropped. Errors as above.
 */
int cmwq_drain_workqueue(struct cmwq_workqueue *wq);
/*
 * The two above, for `timeout_ns` nanoseconds at most. -ETIMEDOUT: items have not ended by then;
 * they stay queued and run later, and cmwq_workqueue_unfinished() says which they are. After a
 * drain that has timed out the queue accepts items from outside again.
 */
CMWQ_MUST_CHECK int cmwq_flush_workqueue_timeout_ns(struct cmwq_workqueue *wq, uint64_t timeout_ns);
CMWQ_MUST_CHECK int cmwq_drain_workqueue_timeout_ns(struct cmwq_workqueue *wq, uint64_t timeout_ns);
/*
 * Closes the workqueue, so that from now on only its own items may queue on it; waits until
 * everything that is queued has run, for `timeout_ns` nanoseconds at most; and ends the workqueue.
 * -ETIMEDOUT: items have not ended by then. The workqueue still exists then and stays closed, and
 * its items run on: the caller may call this function again, or cmwq_destroy_workqueue(), or may
 * end the process. -EDEADLK, as for cmwq_flush_workqueue(): nothing has changed. Cancel delayed
 * items before, as for cmwq_destroy_workqueue().
 */
CMWQ_MUST_CHECK int cmwq_destroy_workqueue_timeout_ns(struct cmwq_workqueue *wq,
	uint64_t timeout_ns);
/*
 * Writes what has not ended at this moment, for a log after a deadline has passed: a line with the
 * numbers of running and of waiting items, and a line for each function that runs, with its thread
 * and for how long it has run. The text ends with a NUL, and is cut if it is longer than `size`;
 * `text` may be NULL if `size` is 0. Returns the length of the whole text, as snprintf() does.
 * Functions have names if the linker has put them into the program's dynamic symbol table
 * (-rdynamic), and addresses otherwise.
 */
long cmwq_workqueue_unfinished(struct cmwq_workqueue *wq, char *text, size_t size);
/*
 * Changes the limit, which is 1 to 2048: 0 and a negative value are taken for 1, a larger one for
 * 2048, with a warning. (The file of the same name, cmwq_workqueue_write_attribute(), refuses 0 and
 * negative values, as the kernel's does.) -EINVAL: an ordered or BH queue, which have none to
 * change.
 */
int cmwq_workqueue_set_max_active(struct cmwq_workqueue *wq, int max_active);
/*
 * How many items may be active on each NUMA node in any case; 8 or max_active at first. Cut to
 * 0..max_active. -EINVAL: not an unordered unbound queue.
 */
int cmwq_workqueue_set_min_active(struct cmwq_workqueue *wq, int min_active);
/*
 * Changes how many items may be queued and not started; 0 is taken for 1, with a warning. -EINVAL:
 * the queue was made without such a bound (cmwq_workqueue_options).
 */
CMWQ_MUST_CHECK int cmwq_workqueue_set_max_waiting(struct cmwq_workqueue *wq, size_t max_waiting);
/*
 * Writes one of the files that the kernel has for a workqueue, such as "affinity_scope" or
 * "max_active", by its rules, or reads it (with a newline, without a NUL; returns how long it is).
 * `name`: a workqueue of the process. -ENOENT, -EACCES, -EINVAL, -EOVERFLOW, as the file would.
 */
CMWQ_MUST_CHECK int cmwq_workqueue_write_attribute(const char *name, const char *attribute,
	const char *text);
CMWQ_MUST_CHECK long cmwq_workqueue_read_attribute(const char *name, const char *attribute,
	char *text, size_t size);
/*
 * Whether an item queued from `cpu` (CMWQ_CPU_ANY: from here) would have to wait for a place. A
 * hint.
 */
bool cmwq_workqueue_congested(int cpu, struct cmwq_workqueue *wq);

/*
 * The workqueues that every process has. Made at first use; they cannot be destroyed. The
 * deprecated two are queues of their own beside those that replace them; the first work queued on
 * either is warned of, with its function, once in a process.
 */
enum cmwq_system {
	CMWQ_SYSTEM_PERCPU = 0,
	CMWQ_SYSTEM_HIGHPRI = 1,
	CMWQ_SYSTEM_LONG = 2,
	CMWQ_SYSTEM_DFL = 3,
	CMWQ_SYSTEM_DFL_LONG = 4,
	CMWQ_SYSTEM_FREEZABLE = 5,
	CMWQ_SYSTEM_POWER_EFFICIENT = 6,
	CMWQ_SYSTEM_FREEZABLE_POWER_EFFICIENT = 7,
	CMWQ_SYSTEM_BH = 8,
	CMWQ_SYSTEM_BH_HIGHPRI = 9,
	CMWQ_SYSTEM_DEPRECATED_WQ = 10,
	CMWQ_SYSTEM_DEPRECATED_UNBOUND_WQ = 11
};
struct cmwq_workqueue *cmwq_system_workqueue(enum cmwq_system which);
/*
 * The same as symbols. Their values are constants of the ABI, also in the child of a fork, which
 * means queues of its own by them.
 */
extern struct cmwq_workqueue *const cmwq_system_percpu_wq;
extern struct cmwq_workqueue *const cmwq_system_highpri_wq;
extern struct cmwq_workqueue *const cmwq_system_long_wq;
extern struct cmwq_workqueue *const cmwq_system_dfl_wq;
extern struct cmwq_workqueue *const cmwq_system_dfl_long_wq;
extern struct cmwq_workqueue *const cmwq_system_freezable_wq;
extern struct cmwq_workqueue *const cmwq_system_power_efficient_wq;
extern struct cmwq_workqueue *const cmwq_system_freezable_power_efficient_wq;
extern struct cmwq_workqueue *const cmwq_system_bh_wq;
extern struct cmwq_workqueue *const cmwq_system_bh_highpri_wq;
extern struct cmwq_workqueue *const cmwq_system_deprecated_wq;
extern struct cmwq_workqueue *const cmwq_system_deprecated_unbound_wq;

/* ---- the threads that run items ---- */

/* A thread that runs items, as its hooks are told. It is there during the call only. */
struct cmwq_worker {
	uint32_t size;          /* how much of it the library knows */
	uint32_t id;            /* the worker's number in its pool; 0: a rescuer */
	int32_t pool;           /* the pool's number; -1: a rescuer, which belongs to a workqueue */
	int32_t cpu;            /* the CPU that the pool is for; -1: for none in particular */
	int32_t nice;           /* the nice level that it should have */
	uint32_t private_reserved;
	const char *name;       /* what it was to be called; the system keeps 15 bytes */
	const char *rescuer_of; /* the workqueue whose rescuer it is; NULL: a worker */
};

/*
 * After each item the thread has its own name again, at the price of a system call. Otherwise when
 * it is about to sleep.
 */
#define CMWQ_THREADS_RESTORE_NAMES 1u
/*
 * The threads block signals, so that the program's handlers never interrupt a work function. By
 * default they have the signal mask of the thread that used the library first (that called
 * cmwq_set_default_threads(), or made the first workqueue), as it was then, and so has a process
 * that a work function starts. With this flag such a process inherits a mask that blocks nearly
 * everything: see cmwq_reset_signal_mask(). SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP and SIGSYS are
 * never blocked.
 */
#define CMWQ_THREADS_BLOCK_SIGNALS 2u

/*
 * What the threads that run items are to be like. Later versions append; `size` says how much the
 * caller knows.
 *
 * `worker_start(worker, arg)` is called on every thread that runs items, once, before its first: on
 * workers, and on the rescuers of CMWQ_WQ_MEM_RECLAIM. `worker_exit(worker, arg)` is called there
 * after the last. No other thread runs items: the timers' thread queues them, and threads that wait
 * leave them to the workers. Both hooks may use the library; neither may wait for an item of the
 * pool that the thread is for, nor throw. Workers end when they were idle for minutes, or some time
 * after the last workqueue of their pool is gone: destroying it does not wait for that, and the end
 * of the process calls no hook. So `arg` stays valid, and the code stays loaded, as long as the
 * process. All these threads have the scheduling policy of the process's first thread, whichever
 * thread makes them; if that is a real-time policy, SCHED_OTHER.
 */
struct cmwq_thread_attrs {
	uint32_t size;           /* sizeof(struct cmwq_thread_attrs) */
	uint32_t flags;          /* CMWQ_THREADS_... */
	/*
	 * A stack that is smaller than what the system asks for is rounded up. `ulimit -s` means
	 * the main thread only.
	 */
	uint64_t stack_size;     /* in bytes; 0: 2 MiB, or what RUST_MIN_STACK says */
	/*
	 * Their names; NULL: as in the kernel. %p is the pool as in the kernel's names ("3" for a
	 * CPU, "b3" for its BH items, "u7" for pool 7; "R" for a rescuer), %i the worker's number
	 * (of a rescuer: its workqueue), %h "H" if the nice level is below 0, %% is "%".
	 */
	const char *name_format;
	void (*worker_start)(const struct cmwq_worker *worker, void *arg);
	void (*worker_exit)(const struct cmwq_worker *worker, void *arg);
	void *arg;
};

#define CMWQ_THREAD_ATTRS_INIT {sizeof(struct cmwq_thread_attrs), 0, 0, NULL, NULL, NULL, NULL}

/*
 * Threads that workqueues can be given. NULL and errno: EINVAL (no size, unknown flags, a wrong
 * format, a stack with which no thread can be created). Copies `attrs`.
 */
struct cmwq_threads;
CMWQ_MUST_CHECK struct cmwq_threads *cmwq_alloc_threads(const struct cmwq_thread_attrs *attrs);
/* Workqueues that were given them keep what they need. NULL is allowed. */
void cmwq_free_threads(struct cmwq_threads *threads);
/*
 * The threads of all workqueues of the process that are given no others. To be called before
 * anything else that makes or asks about workqueues or CPUs: -EBUSY afterwards. The child of a fork
 * has forgotten it.
 */
CMWQ_MUST_CHECK int cmwq_set_default_threads(const struct cmwq_threads *threads);

/* ---- limits that workqueues share ---- */

/*
 * A limit on how many items of several workqueues may be active at the same time, in addition to
 * each one's max_active. When it is reached, places that become free go to the workqueues that wait
 * in turn, one item each. It counts over all NUMA nodes, so a group of one workqueue is a total of
 * that. An item that waits keeps its place: items that have all places and wait for others of the
 * group wait for ever. docs/c.md says what it means to ordered, frozen and MEM_RECLAIM workqueues.
 * `max_active`: 1 or more; more than 1048576 is cut to that, with a warning. NULL and errno:
 * EINVAL.
 */
struct cmwq_group;
CMWQ_MUST_CHECK struct cmwq_group *cmwq_alloc_group(const char *name, int max_active);
/* Workqueues that were given it keep what they need. NULL is allowed. */
void cmwq_free_group(struct cmwq_group *group);
/* Changes the limit while items flow. -EINVAL: less than 1. */
CMWQ_MUST_CHECK int cmwq_group_set_max_active(struct cmwq_group *group, int max_active);

/* What else there is to say of a workqueue. Later versions append. */
struct cmwq_workqueue_options {
	uint32_t size;                      /* sizeof(struct cmwq_workqueue_options) */
	/* as cmwq_alloc_ordered_workqueue(); max_active is 0 or 1 then */
	bool ordered;
	/* NULL: the process's. Workqueues that were given the same ones share worker pools. */
	const struct cmwq_threads *threads;
	struct cmwq_group *group;           /* NULL: none. BH workqueues have none. */
	/*
	 * At most so many items are queued and not started; 0: no bound. Beyond it
	 * cmwq_queue_work() returns false with errno ENOBUFS, cmwq_try_queue_work() -ENOBUFS, and
	 * cmwq_queue_work_wait_ns() waits. Timers that fire are accepted in any case.
	 */
	size_t max_waiting;
};

#define CMWQ_WORKQUEUE_OPTIONS_INIT {sizeof(struct cmwq_workqueue_options), false, NULL, NULL, 0}

/* cmwq_alloc_workqueue() with options. */
CMWQ_MUST_CHECK struct cmwq_workqueue *cmwq_alloc_workqueue_with(const char *name,
	unsigned int flags, int max_active, const struct cmwq_workqueue_options *options);

/* ---- queueing ---- */

/* Queues `work`, to run near the CPU that the caller is on. */
bool cmwq_queue_work(struct cmwq_workqueue *wq, struct cmwq_work *work);
/*
 * The same, on a queue with a bound on what waits (max_waiting): waits up to `timeout_ns`
 * nanoseconds for room, UINT64_MAX: as long as it takes. Returns as cmwq_try_queue_work(), or
 * -ETIMEDOUT, or -EDEADLK from one of the queue's own items, or from one that has the place in a
 * group for which the queue's items wait.
 */
CMWQ_MUST_CHECK int cmwq_queue_work_wait_ns(struct cmwq_workqueue *wq, struct cmwq_work *work,
	uint64_t timeout_ns);
/* The same, from `cpu`; from here, with a warning, if there is no such CPU. */
bool cmwq_queue_work_on(int cpu, struct cmwq_workqueue *wq, struct cmwq_work *work);
/*
 * The same, from a CPU of NUMA node `node`, if one of it may be used. Only for unbound queues; on
 * others as cmwq_queue_work(), with a warning.
 */
bool cmwq_queue_work_node(int node, struct cmwq_workqueue *wq, struct cmwq_work *work);
/*
 * Queues when `delay_ns` nanoseconds have passed, not earlier, and about a millisecond later at
 * most; 0 queues at once. The item is pending meanwhile. An armed timer is not seen by flush, drain
 * and destroy of the workqueue.
 */
bool cmwq_queue_delayed_work_ns(struct cmwq_workqueue *wq, struct cmwq_delayed_work *dwork,
	uint64_t delay_ns);
bool cmwq_queue_delayed_work_on_ns(int cpu, struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns);
/*
 * Queues when `delay_ns` have passed from now, wherever the item is: a pending instance is moved.
 * true: it was pending. false: it was idle or running (and is queued now), or it is disabled (and
 * is not).
 */
bool cmwq_mod_delayed_work_ns(struct cmwq_workqueue *wq, struct cmwq_delayed_work *dwork,
	uint64_t delay_ns);
bool cmwq_mod_delayed_work_on_ns(int cpu, struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns);

enum cmwq_mod_if {
	CMWQ_MOD_ALWAYS = 0,
	/* If it is pending; an idle one stays idle. */
	CMWQ_MOD_IF_PENDING = 1,
	/* Unless its timer runs no longer than the new delay. */
	CMWQ_MOD_IF_LATER = 2
};
/*
 * The same, if the item is as `which` says, which is checked and done in one step. `*noted = value`
 * is stored, unless NULL, if it is moved or queued, while no other thread can. true: it was
 * pending.
 */
bool cmwq_mod_delayed_work_if_ns(int which, int cpu, struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns, unsigned long *noted,
	unsigned long value);

/* What became of an item that was to be queued. */
enum cmwq_queued {
	/* One new instance was accepted and will run. */
	CMWQ_QUEUED_ACCEPTED = 0,
	/*
	 * It was pending already: that instance has not started, and will see what the caller did
	 * before.
	 */
	CMWQ_QUEUED_PENDING = 1,
	/* It is disabled: nothing will run for this call. */
	CMWQ_QUEUED_DISABLED = 2,
	/*
	 * The workqueue is being drained or destroyed, and the caller is none of its items: nothing
	 * will run for this call.
	 */
	CMWQ_QUEUED_DRAINING = 3,
	/*
	 * It was pending: that instance runs after the new delay instead. From
	 * cmwq_try_mod_delayed_work_ns() only.
	 */
	CMWQ_QUEUED_MOVED = 4,
	/*
	 * As CMWQ_QUEUED_DRAINING, but it was pending: that instance was removed, and is lost. From
	 * cmwq_try_mod_delayed_work_ns() only.
	 */
	CMWQ_QUEUED_REMOVED = 5
};
/*
 * As cmwq_queue_work(), telling all fates apart: enum cmwq_queued, or a negative error number for
 * wrong use (-EINVAL, -ESTALE, -EPERM).
 */
CMWQ_MUST_CHECK int cmwq_try_queue_work(struct cmwq_workqueue *wq, struct cmwq_work *work);
/* The same as cmwq_queue_delayed_work_ns(); -EAGAIN: there is no thread for the timers. */
CMWQ_MUST_CHECK int cmwq_try_queue_delayed_work_ns(struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns);
/* The same as cmwq_mod_delayed_work_ns(). */
CMWQ_MUST_CHECK int cmwq_try_mod_delayed_work_ns(struct cmwq_workqueue *wq,
	struct cmwq_delayed_work *dwork, uint64_t delay_ns);
/*
 * Queues `n` items, in this order, as cmwq_queue_work() does it with one; for up to 128 at a time
 * one publish is paid for. Returns how many were accepted. An item that was pending already, or is
 * disabled, is left out; a workqueue that is being drained or destroyed accepts none.
 */
size_t cmwq_queue_work_batch(struct cmwq_workqueue *wq, struct cmwq_work *const works[], size_t n);
/* The same, and tells the fate of each, as cmwq_try_queue_work() does, in `fates[n]`. */
size_t cmwq_queue_work_batch_fates(struct cmwq_workqueue *wq, struct cmwq_work *const works[],
	size_t n, int fates[]);

/* ---- one item ---- */

/*
 * Waits for the pending instance, or else for the running one. false: there was none. The item of a
 * delayed one whose timer is armed is not pending in this sense: cmwq_flush_delayed_work() is for
 * that. From the item's own function, and from one that the same thread runs while that waits for
 * it, it returns false at once, with a warning and errno EDEADLK: an item cannot wait for itself.
 * It does the same for an item that cannot begin before the calling one ends: of the same ordered
 * workqueue, or of the same CPU if both are BH, or the caller has the only place of max_active or a
 * group. That item is still pending then, and its memory must stay.
 */
bool cmwq_flush_work(struct cmwq_work *work);
/*
 * The flush_work() of the kernel-shaped headers; other programs have no use for it. The difference:
 * for an item that cannot begin before the calling one ends it warns and waits, as in the kernel,
 * until another thread cancels that item or raises the limit. Code of the kernel frees the item
 * after a flush, whatever the answer is.
 */
bool cmwq_flush_work_as_kernel(struct cmwq_work *work);
/*
 * The same, for `timeout_ns` nanoseconds at most. 1: there was one, and it has ended. 0: there was
 * none. -ETIMEDOUT: it has not ended by then, and must be left where it is (or taken back, by
 * cmwq_cancel_work(), if it has not begun). -EDEADLK: called from the item's own function, or for
 * an item that cannot begin before the calling one ends; it is still pending then. -EPERM: in a
 * forked child, the instance is the parent's.
 */
CMWQ_MUST_CHECK int cmwq_flush_work_timeout_ns(struct cmwq_work *work, uint64_t timeout_ns);
/* Removes a pending instance; true: one was removed. Does not wait for a running one. */
bool cmwq_cancel_work(struct cmwq_work *work);
/*
 * The same, and waits until the function does not run any more; one that queues itself cannot
 * escape. In that very function it only removes, with a warning.
 */
bool cmwq_cancel_work_sync(struct cmwq_work *work);
/*
 * Removes a pending instance; the item cannot be queued until it was enabled as often as it was
 * disabled. true: one was removed.
 */
bool cmwq_disable_work(struct cmwq_work *work);
/* The same, and waits until the function does not run any more. */
bool cmwq_disable_work_sync(struct cmwq_work *work);
/* true: the item may be queued again. What was refused meanwhile is lost. */
bool cmwq_enable_work(struct cmwq_work *work);
/*
 * Enables, and queues if that made it possible. true: it was queued. With no workqueue, or one of
 * the parent of a fork, the item stays as it is.
 */
bool cmwq_enable_and_queue_work(struct cmwq_workqueue *wq, struct cmwq_work *work);
/* Queued or on its timer, and not started. A hint. */
bool cmwq_work_pending(const struct cmwq_work *work);

enum cmwq_work_busy { CMWQ_WORK_BUSY_PENDING = 1, CMWQ_WORK_BUSY_RUNNING = 2 };
/* What the item does: CMWQ_WORK_BUSY_... A hint. */
unsigned int cmwq_work_busy(const struct cmwq_work *work);

/* The same for items with a timer; flush stops the timer and queues at once. */
bool cmwq_flush_delayed_work(struct cmwq_delayed_work *dwork);
bool cmwq_flush_delayed_work_as_kernel(struct cmwq_delayed_work *dwork);
CMWQ_MUST_CHECK int cmwq_flush_delayed_work_timeout_ns(struct cmwq_delayed_work *dwork,
	uint64_t timeout_ns);
bool cmwq_cancel_delayed_work(struct cmwq_delayed_work *dwork);
bool cmwq_cancel_delayed_work_sync(struct cmwq_delayed_work *dwork);
bool cmwq_disable_delayed_work(struct cmwq_delayed_work *dwork);
bool cmwq_disable_delayed_work_sync(struct cmwq_delayed_work *dwork);
bool cmwq_enable_delayed_work(struct cmwq_delayed_work *dwork);
/* How long its timer still runs, in whole milliseconds; 0: it is not armed. A hint. */
uint64_t cmwq_delayed_work_left_ns(const struct cmwq_delayed_work *dwork);

/* ---- the calling thread ---- */

/* The item whose function the calling thread runs; NULL: none. Only to compare with. */
struct cmwq_work *cmwq_current_work(void);
/* Whether the calling thread is a workqueue's rescuer. */
bool cmwq_current_is_rescuer(void);
/* Whether it runs an item of a workqueue that has one. */
bool cmwq_current_is_mem_reclaim(void);
/*
 * Describes what the calling work function does: shown beside the function wherever what is busy is
 * shown, until it returns. 31 bytes of it are kept. Outside of a work function nothing happens.
 */
void cmwq_set_worker_desc(const char *desc);
/*
 * Calls `fn(arg)`, which is about to block in something that cmwq does not know of: another item
 * runs meanwhile.
 */
void cmwq_blocking(void (*fn)(void *arg), void *arg);
/* Sleeps; in a work function another item runs meanwhile. */
void cmwq_sleep_ns(uint64_t ns);
/* The number of the CPU that the caller is on: a hint. */
int cmwq_current_cpu(void);
/*
 * Unblocks all signals in the calling thread: for the child that a work function has forked, before
 * it calls exec(). It inherits the mask of the worker, which blocks nearly all of them with
 * CMWQ_THREADS_BLOCK_SIGNALS. Async-signal-safe; may be called in a signal handler too. 0, or a
 * negative error number.
 */
int cmwq_reset_signal_mask(void);

/* ---- every CPU ---- */

/*
 * Runs `fn(arg)` on `cpu`, waits, and returns what it returned. -ENODEV: there is no such CPU.
 * -EDEADLK: the calling item has the only place that cmwq_system_percpu_wq has there; it did not
 * run.
 */
long cmwq_work_on_cpu(int cpu, long (*fn)(void *arg), void *arg);
/*
 * Runs `func` once on every CPU, with an item of its own each, and waits for all. 0, -ENOMEM,
 * -EAGAIN. -EDEADLK: it did not run on a CPU where the calling item has the only place that
 * cmwq_system_percpu_wq has.
 */
CMWQ_MUST_CHECK int cmwq_schedule_on_each_cpu(cmwq_work_fn func);

/* ---- attributes of unbound workqueues ---- */

#define CMWQ_MAX_CPUS 8192
#define CMWQ_CPUMASK_WORDS (CMWQ_MAX_CPUS / 64)

/* A set of CPUs: CPU n is bit n % 64 of word n / 64. */
struct cmwq_cpumask {
	uint64_t bits[CMWQ_CPUMASK_WORDS];
};

/* How the machine is cut into pods. The numbers are part of the ABI; later versions may append. */
enum cmwq_affinity_scope {
	CMWQ_AFFN_DFL = 0,         /* what the process's default is */
	CMWQ_AFFN_CPU = 1,         /* one CPU each */
	CMWQ_AFFN_SMT = 2,         /* the threads of a core */
	CMWQ_AFFN_CACHE = 3,       /* the CPUs that share a last-level cache */
	CMWQ_AFFN_CACHE_SHARD = 4, /* the same, cut to about eight cores */
	CMWQ_AFFN_NUMA = 5,        /* the CPUs of a NUMA node */
	CMWQ_AFFN_SYSTEM = 6       /* all */
};

/*
 * `size` says how much of it the caller knows: cmwq_alloc_workqueue_attrs() and
 * CMWQ_WORKQUEUE_ATTRS_INIT set it. Later versions append, and leave alone what the caller does not
 * know.
 */
struct cmwq_workqueue_attrs {
	uint32_t size;               /* sizeof(struct cmwq_workqueue_attrs) */
	int32_t nice;                /* the workers' nice level, -20 to 19 */
	int32_t affinity_scope;      /* enum cmwq_affinity_scope */
	bool affinity_strict;        /* items never run outside their pod */
	struct cmwq_cpumask cpumask; /* CPUs that items may run on */
};

/*
 * Default values but for the CPUs, of which there are none: for attributes that
 * cmwq_get_workqueue_attrs() fills in.
 */
#define CMWQ_WORKQUEUE_ATTRS_INIT \
	{sizeof(struct cmwq_workqueue_attrs), 0, CMWQ_AFFN_DFL, false, {{0}}}

/* The defaults: nice 0, the default scope, not strict, all CPUs. NULL: no memory. */
CMWQ_MUST_CHECK struct cmwq_workqueue_attrs *cmwq_alloc_workqueue_attrs(void);
/* NULL is allowed. */
void cmwq_free_workqueue_attrs(struct cmwq_workqueue_attrs *attrs);
/*
 * Changes all at once; what is queued already finishes where it is. -EINVAL: not an unbound queue,
 * no size, or a wrong value. Copies `attrs`.
 */
CMWQ_MUST_CHECK int cmwq_apply_workqueue_attrs(struct cmwq_workqueue *wq,
	const struct cmwq_workqueue_attrs *attrs);
/* Reads them, as far as attrs->size says. -EINVAL: it says nothing. */
CMWQ_MUST_CHECK int cmwq_get_workqueue_attrs(struct cmwq_workqueue *wq,
	struct cmwq_workqueue_attrs *attrs);
/* The CPUs on which unbound items of the whole process may run. -EINVAL: none of them exists. */
CMWQ_MUST_CHECK int cmwq_set_unbound_cpumask(const struct cmwq_cpumask *cpus);
/* The CPUs of the machine, and those that the process may use now. */
CMWQ_MUST_CHECK int cmwq_possible_cpus(struct cmwq_cpumask *cpus);
CMWQ_MUST_CHECK int cmwq_online_cpus(struct cmwq_cpumask *cpus);

/* ---- completions ---- */

/*
 * An event that work functions signal and others wait for; counts. 4 bytes; zeros are one that is
 * not done.
 */
struct cmwq_completion {
	uint32_t private_state;
};

#define CMWQ_COMPLETION_INIT {0}

/* Makes it not done. No thread may wait meanwhile. */
void cmwq_reinit_completion(struct cmwq_completion *done);
/* Lets one waiter go on, now or later. */
void cmwq_complete(struct cmwq_completion *done);
/* Lets all go on, until it is initialised again. */
void cmwq_complete_all(struct cmwq_completion *done);
/* Waits; in a work function another item runs meanwhile. */
void cmwq_wait_for_completion(struct cmwq_completion *done);
/* The same, for `timeout_ns` nanoseconds at most. false: it was not done. */
CMWQ_MUST_CHECK bool cmwq_wait_for_completion_timeout_ns(struct cmwq_completion *done,
	uint64_t timeout_ns);
/* The same, without waiting. */
CMWQ_MUST_CHECK bool cmwq_try_wait_for_completion(struct cmwq_completion *done);
/* Whether a wait would return at once. */
bool cmwq_completion_done(const struct cmwq_completion *done);

#ifdef __cplusplus
}
#endif

/* Where items deliver results to a thread that waits in an event loop of its own. */
#include "cmwq_cq.h"
/* Threads that wait for one another, for the kernel-shaped headers. */
#include "cmwq_task.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- read-copy-update ---- */

/* What waits for a grace period. */
struct cmwq_rcu_head {
	struct cmwq_rcu_head *next;
	void (*func)(struct cmwq_rcu_head *head);
};

/* A thread may nest read-side sections, never waits to enter one, and may sleep inside. */
void cmwq_rcu_read_lock(void);
void cmwq_rcu_read_unlock(void);
bool cmwq_rcu_read_lock_held(void);
/* Waits until every section that has begun has ended. Within a section it warns and returns. */
void cmwq_synchronize_rcu(void);
/*
 * Calls `func` when every section that has begun has ended, on a worker. A number below 4096 in its
 * place is the offset of `head` in memory from malloc(), which is freed then.
 */
void cmwq_call_rcu(struct cmwq_rcu_head *head, void (*func)(struct cmwq_rcu_head *head));
/*
 * Waits until all that cmwq_call_rcu() was given before has been called. Within a section, for
 * which that waits, and in a function that cmwq_call_rcu() was given, it warns and returns, with
 * errno EDEADLK.
 */
void cmwq_rcu_barrier(void);

/* ---- the process ---- */

/*
 * Sends warnings (one line each, without a newline) to `handler` instead of to standard error;
 * NULL: back to that. It is called with no lock held, by the thread whose call the warning is
 * about; for workers and the library's other threads a thread of the library that does nothing else
 * calls it, so there it may come a little later.
 */
void cmwq_set_warning_handler(void (*handler)(const char *text, void *arg), void *arg);
/*
 * With CMWQ_CONTROL=1 in the environment, serves the endpoint at which `cmwq list`, `top` and the
 * other commands look at the process and change its workqueues, until the process ends; with
 * CMWQ_CONTROL_HTTP=127.0.0.1:PORT the metrics there as well. 1: it does; 0: not asked to;
 * negative: it cannot (-EBUSY: it does already; -ENOSYS: a library of `install --small`), with a
 * warning that says why. The library itself reads neither variable.
 */
int cmwq_serve_control_if_asked(void);
/*
 * Freezable workqueues start nothing new. What is active goes on: ask _busy() until that is false.
 */
int cmwq_freeze_workqueues_begin(void);
bool cmwq_freeze_workqueues_busy(void);
int cmwq_thaw_workqueues(void);
/* Writes what is busy to standard error. */
void cmwq_show_all_workqueues(void);
/* The same, of freezable workqueues only: what a freeze waits for. */
void cmwq_show_freezable_workqueues(void);
/*
 * Calls `begin(item, queue)` before the function of every item, on the thread that runs it, and
 * `end` after it, before those that wait for the item go on. For tools that follow what threads see
 * of one another; it makes every item slower. Neither may use the library. `queue` is what
 * cmwq_workqueue_id() says of a workqueue, and 1 more for an ordered one that was made since.
 * -EBUSY: there are hooks already.
 */
CMWQ_MUST_CHECK int cmwq_set_run_hooks(void (*begin)(const void *item, uintptr_t queue),
	void (*end)(const void *item, uintptr_t queue));
/* Another workqueue may have the same once this one is gone. */
uint64_t cmwq_workqueue_id(struct cmwq_workqueue *wq);
/* Nanoseconds of the clock that delays are counted by. */
uint64_t cmwq_now_ns(void);

#ifdef __cplusplus
}
#endif

/*
 * In a program that is compiled with -fsanitize=thread, or with -DCMWQ_VALGRIND for valgrind's
 * helgrind and drd, what orders threads in the library, into which these do not see, is told to
 * them.
 */
#if defined(__SANITIZE_THREAD__)
#define CMWQ_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CMWQ_TSAN
#endif
#endif
#if defined(CMWQ_TSAN) || defined(CMWQ_VALGRIND)
#include "cmwq_race_detectors.h"
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
CMWQ_ASSERT(sizeof(struct cmwq_work) == 48 && CMWQ_ALIGNOF(struct cmwq_work) == 8,
	    "layout of cmwq_work");
CMWQ_ASSERT(offsetof(struct cmwq_work, private_next) == 8 &&
		    offsetof(struct cmwq_work, func) == 24,
	    "layout of cmwq_work");
CMWQ_ASSERT(sizeof(struct cmwq_delayed_work) == 80 &&
		    offsetof(struct cmwq_delayed_work, private_timer) == 48,
	    "layout of cmwq_delayed_work");
CMWQ_ASSERT(offsetof(struct cmwq_delayed_work, expires_ms) == 56, "layout of cmwq_delayed_work");
CMWQ_ASSERT(sizeof(struct cmwq_cqe) == 16 && offsetof(struct cmwq_cqe, result) == 8,
	    "layout of cmwq_cqe");
CMWQ_ASSERT(sizeof(struct cmwq_completion) == 4, "layout of cmwq_completion");
CMWQ_ASSERT(sizeof(struct cmwq_worker) == 40 && sizeof(struct cmwq_thread_attrs) == 48,
	    "layout of cmwq_thread_attrs");
CMWQ_ASSERT(sizeof(struct cmwq_workqueue_options) == 32, "layout of cmwq_workqueue_options");
CMWQ_ASSERT(offsetof(struct cmwq_workqueue_attrs, cpumask) == 16 &&
		    sizeof(struct cmwq_cpumask) == 1024,
	    "layout of cmwq_workqueue_attrs");
CMWQ_ASSERT(sizeof(struct cmwq_workqueue_attrs) == 1040 &&
		    offsetof(struct cmwq_workqueue_attrs, size) == 0,
	    "layout of cmwq_workqueue_attrs");

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: a thread that runs work
 * in order, one of <linux/kthread.h>'s. Included by that.
 */
#ifndef CMWQ_LINUX_CMWQ_KTHREAD_WORKER_H
#define CMWQ_LINUX_CMWQ_KTHREAD_WORKER_H

#include <linux/cmwq_base.h>
#if !defined(CMWQ_NO_KTHREAD) && !defined(CMWQ_NO_LIST_HEAD) && !defined(CMWQ_NO_LIST) && \
	!defined(CMWQ_NO_TIMER)
#include <linux/bug.h>
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/timer.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kthread_work;
typedef void (*kthread_work_func_t)(struct kthread_work *work);

/*
 * `node` is on one of the worker's lists while the work is pending; with the rest it is guarded by
 * the worker's lock, which `worker` is read without.
 */
struct kthread_work {
	struct list_head node;
	kthread_work_func_t func;
	struct kthread_worker *worker;
	/* How many threads are cancelling the work. Meanwhile no thread can queue it. */
	int canceling;
};

struct kthread_delayed_work {
	struct kthread_work work;
	struct timer_list timer;
};

struct kthread_worker {
	unsigned int flags;
	pthread_mutex_t lock;
	struct list_head work_list;
	struct list_head delayed_work_list;
	struct task_struct *task;
	struct kthread_work *current_work;
};

enum { KTW_FREEZABLE = 1 << 0 };

#define KTHREAD_WORKER_INIT(worker)                                        \
	{0, PTHREAD_MUTEX_INITIALIZER, LIST_HEAD_INIT((worker).work_list), \
		LIST_HEAD_INIT((worker).delayed_work_list), NULL, NULL}
#define KTHREAD_WORK_INIT(work, fn) {LIST_HEAD_INIT((work).node), (fn), NULL, 0}
#define KTHREAD_DELAYED_WORK_INIT(dwork, fn)    \
	{KTHREAD_WORK_INIT((dwork).work, (fn)), \
		__TIMER_INITIALIZER(kthread_delayed_work_timer_fn, 0)}
#define DEFINE_KTHREAD_WORKER(worker) struct kthread_worker worker = KTHREAD_WORKER_INIT(worker)
#define DEFINE_KTHREAD_WORKER_ONSTACK(worker) DEFINE_KTHREAD_WORKER(worker)
#define DEFINE_KTHREAD_WORK(work, fn) struct kthread_work work = KTHREAD_WORK_INIT(work, fn)
#define DEFINE_KTHREAD_DELAYED_WORK(dwork, fn) \
	struct kthread_delayed_work dwork = KTHREAD_DELAYED_WORK_INIT(dwork, fn)

static inline void kthread_init_worker(struct kthread_worker *worker)
{
	memset(worker, 0, sizeof(*worker));
	pthread_mutex_init(&worker->lock, NULL);
	INIT_LIST_HEAD(&worker->work_list);
	INIT_LIST_HEAD(&worker->delayed_work_list);
}

static inline void kthread_init_work(struct kthread_work *work, kthread_work_func_t func)
{
	memset(work, 0, sizeof(*work));
	INIT_LIST_HEAD(&work->node);
	work->func = func;
}

/* With the lock. */
static inline void cmwq_kthread_insert(struct kthread_worker *worker, struct kthread_work *work,
	struct list_head *before)
{
	list_add_tail(&work->node, before);
	__atomic_store_n(&work->worker, worker, __ATOMIC_RELEASE);
	if (!worker->current_work && worker->task)
		wake_up_process(worker->task);
}

static inline bool cmwq_kthread_work_is_idle(const struct kthread_work *work)
{
	return list_empty(&work->node) && !work->canceling;
}

static inline void cmwq_kthread_run_work(void *work)
{
	((struct kthread_work *)work)->func((struct kthread_work *)work);
}

/*
 * The function of the thread: kthread_run(kthread_worker_fn, &worker, "name"). It returns when
 * another thread has told it to stop and no work is queued.
 */
static inline int kthread_worker_fn(void *arg)
{
	struct kthread_worker *worker = (struct kthread_worker *)arg;

	pthread_mutex_lock(&worker->lock);
	/* A caller of kthread_create_worker() may read it. */
	if (!worker->task)
		worker->task = current;
	pthread_mutex_unlock(&worker->lock);
	for (;;) {
		struct kthread_work *work = NULL;
		bool stops;

		/*
		 * The worker sets its state before it checks for work, so a thread that queues
		 * afterwards wakes it.
		 */
		set_current_state(TASK_INTERRUPTIBLE);
		stops = kthread_should_stop();
		pthread_mutex_lock(&worker->lock);
		if (!list_empty(&worker->work_list)) {
			work = list_first_entry(&worker->work_list, struct kthread_work, node);
			list_del_init(&work->node);
		} else if (stops) {
			worker->task = NULL;
		}
		worker->current_work = work;
		pthread_mutex_unlock(&worker->lock);
		if (work) {
			__set_current_state(TASK_RUNNING);
			/*
			 * The function may free the work. If the function ends the thread
			 * (pthread_exit, a cancellation), the work counts as ended, and the worker
			 * runs the next one.
			 */
			cmwq_task_call(cmwq_kthread_run_work, work);
		} else if (stops) {
			__set_current_state(TASK_RUNNING);
			return 0;
		} else {
			schedule();
		}
	}
}

static inline bool kthread_queue_work(struct kthread_worker *worker, struct kthread_work *work)
{
	bool idle;

	pthread_mutex_lock(&worker->lock);
	idle = cmwq_kthread_work_is_idle(work);
	if (idle)
		cmwq_kthread_insert(worker, work, &worker->work_list);
	pthread_mutex_unlock(&worker->lock);
	return idle;
}

/* ---- delayed ---- */

static inline void kthread_delayed_work_timer_fn(struct timer_list *timer)
{
	struct kthread_delayed_work *dwork = container_of(timer, struct kthread_delayed_work,
		timer);
	struct kthread_work *work = &dwork->work;
	struct kthread_worker *worker = __atomic_load_n(&work->worker, __ATOMIC_ACQUIRE);

	pthread_mutex_lock(&worker->lock);
	/*
	 * Otherwise another thread has cancelled the work, or cancels or moves it now and finds it
	 * pending.
	 */
	if (!list_empty(&work->node) && !work->canceling) {
		list_del_init(&work->node);
		cmwq_kthread_insert(worker, work, &worker->work_list);
	}
	pthread_mutex_unlock(&worker->lock);
}

static inline void kthread_init_delayed_work(struct kthread_delayed_work *dwork,
	kthread_work_func_t func)
{
	kthread_init_work(&dwork->work, func);
	timer_setup(&dwork->timer, kthread_delayed_work_timer_fn, 0);
}

/* With the lock. */
static inline void cmwq_kthread_insert_delayed(struct kthread_worker *worker,
	struct kthread_delayed_work *dwork, unsigned long delay)
{
	if (!delay) {
		cmwq_kthread_insert(worker, &dwork->work, &worker->work_list);
		return;
	}
	__atomic_store_n(&dwork->work.worker, worker, __ATOMIC_RELEASE);
	list_add(&dwork->work.node, &worker->delayed_work_list);
	mod_timer(&dwork->timer, jiffies + delay);
}

static inline bool kthread_queue_delayed_work(struct kthread_worker *worker,
	struct kthread_delayed_work *dwork, unsigned long delay)
{
	bool idle;

	pthread_mutex_lock(&worker->lock);
	idle = cmwq_kthread_work_is_idle(&dwork->work);
	if (idle)
		cmwq_kthread_insert_delayed(worker, dwork, delay);
	pthread_mutex_unlock(&worker->lock);
	return idle;
}

/*
 * The caller holds the lock, which this function releases while it waits. The timer does not run
 * afterwards.
 */
static inline void cmwq_kthread_stop_timer(struct kthread_worker *worker,
	struct kthread_delayed_work *dwork)
{
	dwork->work.canceling++;
	pthread_mutex_unlock(&worker->lock);
	timer_delete_sync(&dwork->timer);
	pthread_mutex_lock(&worker->lock);
	dwork->work.canceling--;
}

/* true: it was pending, and has been moved. */
static inline bool kthread_mod_delayed_work(struct kthread_worker *worker,
	struct kthread_delayed_work *dwork, unsigned long delay)
{
	bool pending = false;

	pthread_mutex_lock(&worker->lock);
	if (dwork->work.worker) {
		cmwq_kthread_stop_timer(worker, dwork);
		pending = !list_empty(&dwork->work.node);
	}
	if (!dwork->work.canceling) {
		list_del_init(&dwork->work.node);
		cmwq_kthread_insert_delayed(worker, dwork, delay);
	}
	pthread_mutex_unlock(&worker->lock);
	return pending;
}

/* ---- waiting ---- */

struct cmwq_kthread_flush {
	struct kthread_work work;
	struct completion done;
};

static inline void cmwq_kthread_flush_fn(struct kthread_work *work)
{
	complete(&container_of(work, struct cmwq_kthread_flush, work)->done);
}

/*
 * Whether the caller is the worker's own thread, which would wait for itself. The caller holds the
 * lock.
 */
static inline bool cmwq_kthread_is_own(const struct kthread_worker *worker)
{
	return worker->task == current;
}

#define cmwq_kthread_warn_of_own(own) \
	WARN_ONCE((own),              \
		"a work of a kthread_worker waits for its own worker, which would never end\n")

/*
 * Waits until all work that is queued has run. Called on the worker's own thread, the function
 * warns and returns.
 */
static inline void kthread_flush_worker(struct kthread_worker *worker)
{
	struct cmwq_kthread_flush flush;
	bool own;

	pthread_mutex_lock(&worker->lock);
	own = cmwq_kthread_is_own(worker);
	pthread_mutex_unlock(&worker->lock);
	if (cmwq_kthread_warn_of_own(own))
		return;
	kthread_init_work(&flush.work, cmwq_kthread_flush_fn);
	init_completion(&flush.done);
	kthread_queue_work(worker, &flush.work);
	wait_for_completion(&flush.done);
}

/*
 * Waits for the pending instance, or else for the running one. Called on the worker's own thread,
 * the function warns and returns.
 */
static inline void kthread_flush_work(struct kthread_work *work)
{
	struct kthread_worker *worker = __atomic_load_n(&work->worker, __ATOMIC_ACQUIRE);
	struct cmwq_kthread_flush flush;
	bool waits = true, own;

	if (!worker)
		return;
	kthread_init_work(&flush.work, cmwq_kthread_flush_fn);
	init_completion(&flush.done);
	pthread_mutex_lock(&worker->lock);
	own = cmwq_kthread_is_own(worker) &&
		(!list_empty(&work->node) || worker->current_work == work);
	if (own)
		waits = false;
	else if (!list_empty(&work->node))
		cmwq_kthread_insert(worker, &flush.work, work->node.next);
	else if (worker->current_work == work)
		cmwq_kthread_insert(worker, &flush.work, worker->work_list.next);
	else
		waits = false;
	pthread_mutex_unlock(&worker->lock);
	cmwq_kthread_warn_of_own(own);
	if (waits)
		wait_for_completion(&flush.done);
}

static inline bool cmwq_kthread_cancel(struct kthread_work *work,
	struct kthread_delayed_work *dwork)
{
	struct kthread_worker *worker = __atomic_load_n(&work->worker, __ATOMIC_ACQUIRE);
	bool pending;

	if (!worker)
		return false;
	pthread_mutex_lock(&worker->lock);
	if (dwork)
		cmwq_kthread_stop_timer(worker, dwork);
	pending = !list_empty(&work->node);
	list_del_init(&work->node);
	if (worker->current_work == work) {
		work->canceling++;
		pthread_mutex_unlock(&worker->lock);
		kthread_flush_work(work);
		pthread_mutex_lock(&worker->lock);
		work->canceling--;
	}
	pthread_mutex_unlock(&worker->lock);
	return pending;
}

/*
 * Removes a pending instance and waits for a running one. Called by that running one, the function
 * warns and does not wait. true: it has removed an instance.
 */
static inline bool kthread_cancel_work_sync(struct kthread_work *work)
{
	return cmwq_kthread_cancel(work, NULL);
}

static inline bool kthread_cancel_delayed_work_sync(struct kthread_delayed_work *dwork)
{
	return cmwq_kthread_cancel(&dwork->work, dwork);
}

/* ---- workers with a thread of their own ---- */

/* Makes a worker whose thread waits for its first wake-up; ERR_PTR() on failure. */
#define kthread_create_worker_on_node(flags, node, ...)                                         \
	cmwq_kthread_created(__extension__({                                                    \
		struct kthread_worker *cmwq_worker_ = cmwq_kthread_alloc_worker(flags);         \
		cmwq_worker_                                                                    \
			? cmwq_kthread_with(cmwq_worker_,                                       \
				  kthread_create(kthread_worker_fn, cmwq_worker_, __VA_ARGS__)) \
			: (struct kthread_worker *)ERR_PTR(-ENOMEM);                            \
	}))
#define kthread_create_worker(flags, ...) kthread_create_worker_on_node((flags), -1, __VA_ARGS__)
/* The CPU is the argument of the name's format. */
#define kthread_create_worker_on_cpu(cpu, flags, name) \
	cmwq_kthread_bound(kthread_create_worker((flags), (name), (cpu)), (cpu))
#define kthread_run_worker(flags, ...) \
	cmwq_kthread_started(kthread_create_worker((flags), __VA_ARGS__))
#define kthread_run_worker_on_cpu(cpu, flags, name) \
	cmwq_kthread_started(kthread_create_worker_on_cpu((cpu), (flags), (name)))

static inline CMWQ_MUST_CHECK struct kthread_worker *cmwq_kthread_alloc_worker(unsigned int flags)
{
	struct kthread_worker *worker = (struct kthread_worker *)malloc(sizeof(*worker));

	if (worker) {
		kthread_init_worker(worker);
		worker->flags = flags;
	}
	return worker;
}

/* The caller must check the returned pointer. */
static inline CMWQ_MUST_CHECK struct kthread_worker *cmwq_kthread_created(
	struct kthread_worker *worker)
{
	return worker;
}

static inline CMWQ_MUST_CHECK struct kthread_worker *cmwq_kthread_with(struct kthread_worker
									       *worker,
	struct task_struct *task)
{
	if (IS_ERR(task)) {
		free(worker);
		return (struct kthread_worker *)(void *)task;
	}
	worker->task = task;
	return worker;
}

static inline CMWQ_MUST_CHECK struct kthread_worker *cmwq_kthread_bound(struct kthread_worker
										*worker,
	unsigned int cpu)
{
	if (!IS_ERR(worker))
		kthread_bind(worker->task, cpu);
	return worker;
}

static inline CMWQ_MUST_CHECK struct kthread_worker *cmwq_kthread_started(
	struct kthread_worker *worker)
{
	if (!IS_ERR(worker))
		wake_up_process(worker->task);
	return worker;
}

/*
 * The worker runs what is queued, then its thread ends and the worker is freed. The caller has to
 * cancel delayed work before. If the caller is the worker's own thread, the function warns, and the
 * worker stays.
 */
static inline void kthread_destroy_worker(struct kthread_worker *worker)
{
	struct task_struct *task;
	bool own;

	pthread_mutex_lock(&worker->lock);
	task = worker->task;
	own = cmwq_kthread_is_own(worker);
	pthread_mutex_unlock(&worker->lock);
	if (cmwq_kthread_warn_of_own(own))
		return;
	kthread_flush_worker(worker);
	kthread_stop(task);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

#endif
#endif

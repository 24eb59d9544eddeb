/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of <cmwq_race_detectors.h>, which includes it: what is told of batches, completion queues,
 * threads that wait for one another, functions on CPUs, and read-copy-update.
 */
#ifndef CMWQ_RACE_DETECTORS_OTHERS_H
#define CMWQ_RACE_DETECTORS_OTHERS_H

#ifdef __cplusplus
extern "C" {
#endif
/* What stands for the entries of completion queues, by their tokens. Tokens may share a place. */
__attribute__((__weak__)) char cmwq_told_tokens[4096];
/*
 * What stands for the read-side sections that have ended, the grace periods that have begun, and
 * the callbacks that have run.
 */
__attribute__((__weak__)) char cmwq_told_rcu[3];
#ifdef __cplusplus
}
#endif

/* ---- many items, and completion queues ---- */

static inline void cmwq_told_release_all(struct cmwq_work *const works[], size_t n)
{
	size_t i;

	/* The library refuses what is no array. */
	if (!works || (uintptr_t)works % sizeof(*works) || n > SIZE_MAX / 2 / sizeof(*works))
		return;
	for (i = 0; i < n; i++)
		cmwq_told_release(works[i]);
}

static inline size_t cmwq_told_queue_work_batch(struct cmwq_workqueue *wq,
	struct cmwq_work *const works[], size_t n)
{
	cmwq_told_release_all(works, n);
	return cmwq_queue_work_batch(wq, works, n);
}

static inline size_t cmwq_told_queue_work_batch_fates(struct cmwq_workqueue *wq,
	struct cmwq_work *const works[], size_t n, int fates[])
{
	cmwq_told_release_all(works, n);
	return cmwq_queue_work_batch_fates(wq, works, n, fates);
}

static inline char *cmwq_told_token(uint64_t token)
{
	return &cmwq_told_tokens[(token * 0x9e3779b97f4a7c15u >> 32) % sizeof(cmwq_told_tokens)];
}

static inline int cmwq_told_cq_post(struct cmwq_cq *cq, uint64_t token, int64_t result)
{
	cmwq_told_release_shared(cmwq_told_token(token));
	return cmwq_cq_post(cq, token, result);
}

/* A function of cmwq_cq_execute(), with what the program gave. */
struct cmwq_told_job {
	int64_t (*fn)(void *arg);
	void *arg;
	uint64_t token;
};

static inline int64_t cmwq_told_cq_run(void *arg)
{
	struct cmwq_told_job *job = (struct cmwq_told_job *)arg;
	int64_t result;

	cmwq_told_acquire(job);
	result = job->fn(job->arg);
	cmwq_told_release_shared(cmwq_told_token(job->token));
	free(job);
	return result;
}

static inline int cmwq_told_cq_execute(struct cmwq_cq *cq, struct cmwq_workqueue *wq,
	int64_t (*fn)(void *arg), void *arg, uint64_t token)
{
	struct cmwq_told_job *job = fn ? (struct cmwq_told_job *)malloc(sizeof(*job)) : NULL;
	int result;

	if (!job)
		return cmwq_cq_execute(cq, wq, fn, arg, token);
	job->fn = fn;
	job->arg = arg;
	job->token = token;
	cmwq_told_release(job);
	result = cmwq_cq_execute(cq, wq, cmwq_told_cq_run, job, token);
	if (result)
		free(job);
	return result;
}

static inline size_t cmwq_told_drained(const struct cmwq_cqe entries[], size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		cmwq_told_acquire(cmwq_told_token(entries[i].token));
	return n;
}

static inline size_t cmwq_told_cq_drain(struct cmwq_cq *cq, struct cmwq_cqe entries[], size_t max)
{
	return cmwq_told_drained(entries, cmwq_cq_drain(cq, entries, max));
}

static inline size_t cmwq_told_cq_wait(struct cmwq_cq *cq, struct cmwq_cqe entries[], size_t max)
{
	return cmwq_told_drained(entries, cmwq_cq_wait(cq, entries, max));
}

static inline size_t cmwq_told_cq_wait_timeout_ns(struct cmwq_cq *cq, struct cmwq_cqe entries[],
	size_t max, uint64_t timeout_ns)
{
	return cmwq_told_drained(entries, cmwq_cq_wait_timeout_ns(cq, entries, max, timeout_ns));
}

/* ---- threads that wait for one another ---- */

static inline bool cmwq_told_task_wake(struct cmwq_task *task, unsigned int states)
{
	cmwq_told_release(task);
	return cmwq_task_wake(task, states);
}

static inline bool cmwq_told_task_sleep_ns(uint64_t ns)
{
	bool woken = cmwq_task_sleep_ns(ns);

	cmwq_told_acquire(cmwq_current_task());
	return woken;
}

/* ---- every CPU ---- */

struct cmwq_told_call {
	long (*fn)(void *arg);
	void *arg;
};

static inline long cmwq_told_call_run(void *arg)
{
	struct cmwq_told_call *call = (struct cmwq_told_call *)arg;
	long result;

	cmwq_told_acquire(call);
	result = call->fn(call->arg);
	cmwq_told_release(call);
	return result;
}

static inline long cmwq_told_work_on_cpu(int cpu, long (*fn)(void *arg), void *arg)
{
	struct cmwq_told_call call;
	long result;

	if (!fn)
		return cmwq_work_on_cpu(cpu, fn, arg);
	call.fn = fn;
	call.arg = arg;
	cmwq_told_release(&call);
	result = cmwq_work_on_cpu(cpu, cmwq_told_call_run, &call);
	cmwq_told_acquire(&call);
	return result;
}

/* This does what the library does, with items that it names to the sanitizer. */
static inline int cmwq_told_schedule_on_each_cpu(cmwq_work_fn func)
{
	struct cmwq_cpumask *cpus = (struct cmwq_cpumask *)calloc(1, sizeof(*cpus));
	struct cmwq_work *items = (struct cmwq_work *)calloc(CMWQ_MAX_CPUS, sizeof(*items));
	int cpu, result = func && cpus && items ? cmwq_online_cpus(cpus) : 1;

	if (result) {
		free(items);
		free(cpus);
		return cmwq_schedule_on_each_cpu(func);
	}
	for (cpu = 0; cpu < CMWQ_MAX_CPUS; cpu++) {
		if (!(cpus->bits[cpu / 64] >> cpu % 64 & 1))
			continue;
		cmwq_init_work(&items[cpu], func);
		cmwq_told_release(&items[cpu]);
		if (!cmwq_queue_work_on(cpu, cmwq_system_percpu_wq, &items[cpu]))
			result = -EAGAIN;
	}
	for (cpu = 0; cpu < CMWQ_MAX_CPUS; cpu++) {
		if (!items[cpu].func)
			continue;
		errno = 0;
		if (!cmwq_flush_work(&items[cpu]) && errno == EDEADLK) {
			/* If it cannot be removed, it has begun since. */
			if (cmwq_cancel_work(&items[cpu]))
				result = -EDEADLK;
			else
				cmwq_flush_work_as_kernel(&items[cpu]);
		}
		cmwq_told_waited(&items[cpu]);
	}
	free(items);
	free(cpus);
	return result;
}

/* ---- read-copy-update ---- */

static inline void cmwq_told_rcu_read_lock(void)
{
	cmwq_rcu_read_lock();
	cmwq_told_acquire(&cmwq_told_rcu[1]);
}

static inline void cmwq_told_rcu_read_unlock(void)
{
	cmwq_told_release_shared(&cmwq_told_rcu[0]);
	cmwq_rcu_read_unlock();
}

static inline void cmwq_told_synchronize_rcu(void)
{
	/* Within a section the library does not wait. */
	bool waits = !cmwq_rcu_read_lock_held();

	cmwq_told_release_shared(&cmwq_told_rcu[1]);
	cmwq_synchronize_rcu();
	if (waits)
		cmwq_told_acquire(&cmwq_told_rcu[0]);
}

/* The structure that waits for a grace period in place of the program's head. */
struct cmwq_told_callback {
	struct cmwq_rcu_head head;
	struct cmwq_rcu_head *programs;
	void (*func)(struct cmwq_rcu_head *head);
};

static inline void cmwq_told_callback_run(struct cmwq_rcu_head *head)
{
	struct cmwq_told_callback *callback = CMWQ_CONTAINER_OF(head, struct cmwq_told_callback,
		head);

	cmwq_told_acquire(callback);
	cmwq_told_acquire(&cmwq_told_rcu[0]);
	/* An offset is no function: see cmwq_call_rcu(). */
	if ((uintptr_t)callback->func < 4096)
		free((char *)callback->programs - (uintptr_t)callback->func);
	else
		callback->func(callback->programs);
	free(callback);
	cmwq_told_release_shared(&cmwq_told_rcu[2]);
}

static inline void cmwq_told_call_rcu(struct cmwq_rcu_head *head,
	void (*func)(struct cmwq_rcu_head *head))
{
	struct cmwq_told_callback *callback = head
		? (struct cmwq_told_callback *)malloc(sizeof(*callback))
		: NULL;

	if (!callback) {
		cmwq_call_rcu(head, func);
		return;
	}
	callback->programs = head;
	callback->func = func;
	cmwq_told_release(callback);
	cmwq_call_rcu(&callback->head, cmwq_told_callback_run);
}

static inline void cmwq_told_rcu_barrier(void)
{
	cmwq_rcu_barrier();
	cmwq_told_acquire(&cmwq_told_rcu[2]);
}

#define cmwq_queue_work_batch(wq, works, n) cmwq_told_queue_work_batch((wq), (works), (n))
#define cmwq_queue_work_batch_fates(wq, works, n, fates) \
	cmwq_told_queue_work_batch_fates((wq), (works), (n), (fates))
#define cmwq_cq_post(cq, token, result) cmwq_told_cq_post((cq), (token), (result))
#define cmwq_cq_execute(cq, wq, fn, arg, token) \
	cmwq_told_cq_execute((cq), (wq), (fn), (arg), (token))
#define cmwq_cq_drain(cq, entries, max) cmwq_told_cq_drain((cq), (entries), (max))
#define cmwq_cq_wait(cq, entries, max) cmwq_told_cq_wait((cq), (entries), (max))
#define cmwq_cq_wait_timeout_ns(cq, entries, max, timeout_ns) \
	cmwq_told_cq_wait_timeout_ns((cq), (entries), (max), (timeout_ns))
#define cmwq_work_on_cpu(cpu, fn, arg) cmwq_told_work_on_cpu((cpu), (fn), (arg))
#define cmwq_schedule_on_each_cpu(func) cmwq_told_schedule_on_each_cpu((func))
#define cmwq_rcu_read_lock() cmwq_told_rcu_read_lock()
#define cmwq_rcu_read_unlock() cmwq_told_rcu_read_unlock()
#define cmwq_synchronize_rcu() cmwq_told_synchronize_rcu()
#define cmwq_call_rcu(head, func) cmwq_told_call_rcu((head), (func))
#define cmwq_rcu_barrier() cmwq_told_rcu_barrier()
#define cmwq_task_wake(task, states) cmwq_told_task_wake((task), (states))
#define cmwq_task_sleep_ns(ns) cmwq_told_task_sleep_ns((ns))

#endif

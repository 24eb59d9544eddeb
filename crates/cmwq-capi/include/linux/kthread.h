/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: threads that are told to
 * stop or to park. A program that brings its own defines CMWQ_NO_KTHREAD.
 */
#ifndef CMWQ_LINUX_KTHREAD_H
#define CMWQ_LINUX_KTHREAD_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KTHREAD
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/kthread.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KTHREAD

#include <errno.h>
#include <linux/bug.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/sched.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* What else the library keeps of such a thread. */
struct cmwq_kthread {
	int (*func)(void *data);
	void *data;
	struct task_struct *task;
	unsigned int flags;
	int result, cpu;
	struct completion created, exited;
	/* Guards the flag for parking and what follows. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool parked;
	char name[16];
};

#define CMWQ_KTHREAD_STOP 1u
#define CMWQ_KTHREAD_PARK 2u

static inline struct cmwq_kthread *cmwq_kthread_of(struct task_struct *task)
{
	return (struct cmwq_kthread *)task->cmwq_thread;
}

static inline bool cmwq_kthread_is(unsigned int flag)
{
	struct cmwq_kthread *thread = cmwq_kthread_of(current);

	return thread && (__atomic_load_n(&thread->flags, __ATOMIC_SEQ_CST) & flag);
}

static inline bool kthread_should_stop(void)
{
	return cmwq_kthread_is(CMWQ_KTHREAD_STOP);
}

static inline bool kthread_should_park(void)
{
	return cmwq_kthread_is(CMWQ_KTHREAD_PARK);
}

#define kthread_should_stop_or_park() (kthread_should_stop() || kthread_should_park())
#define kthread_freezable_should_stop(frozen) kthread_should_stop()

/* The calling thread sleeps until another thread unparks it or tells it to stop. */
static inline void kthread_parkme(void)
{
	struct cmwq_kthread *thread = cmwq_kthread_of(current);

	pthread_mutex_lock(&thread->lock);
	while (kthread_should_park() && !kthread_should_stop()) {
		thread->parked = true;
		pthread_cond_broadcast(&thread->changed);
		cmwq_cond_wait(&thread->changed, &thread->lock);
	}
	thread->parked = false;
	pthread_mutex_unlock(&thread->lock);
}

/* This runs also if the thread's function ends the thread, by pthread_exit() for example. */
static inline void cmwq_kthread_ends(void *thread)
{
	complete_all(&((struct cmwq_kthread *)thread)->exited);
}

static inline void *cmwq_kthread_main(void *arg)
{
	struct cmwq_kthread *thread = (struct cmwq_kthread *)arg;

	cmwq_task_name(thread->name);
	thread->task = current;
	current->cmwq_thread = thread;
	get_task_struct(thread->task);
	__set_current_state(TASK_UNINTERRUPTIBLE);
	complete(&thread->created);
	schedule();
	if (thread->cpu >= 0)
		cmwq_task_bind((struct cmwq_task *)(void *)thread->task, thread->cpu);
	/* Another thread may have told it to park before its function is called. */
	kthread_parkme();
	pthread_cleanup_push(cmwq_kthread_ends, thread);
	if (kthread_should_stop())
		thread->result = -EINTR;
	else
		thread->result = thread->func(thread->data);
	pthread_cleanup_pop(1);
	return NULL;
}

/*
 * Makes a thread that waits for its first wake-up. ERR_PTR(-EAGAIN): the system creates no thread.
 */
__attribute__((__format__(__printf__, 3, 4), __unused__))
static CMWQ_MUST_CHECK struct task_struct *
kthread_create(int (*func)(void *data), void *data, const char *name, ...)
{
	struct cmwq_kthread *thread = (struct cmwq_kthread *)calloc(1, sizeof(*thread));
	pthread_t id;
	va_list args;

	if (!thread)
		return (struct task_struct *)ERR_PTR(-ENOMEM);
	thread->func = func;
	thread->data = data;
	thread->cpu = -1;
	init_completion(&thread->created);
	init_completion(&thread->exited);
	pthread_mutex_init(&thread->lock, NULL);
	pthread_cond_init(&thread->changed, NULL);
	va_start(args, name);
	vsnprintf(thread->name, sizeof(thread->name), name, args);
	va_end(args);
	if (pthread_create(&id, NULL, cmwq_kthread_main, thread)) {
		free(thread);
		return (struct task_struct *)ERR_PTR(-EAGAIN);
	}
	pthread_detach(id);
	wait_for_completion(&thread->created);
	return thread->task;
}

#define kthread_create_on_node(func, data, node, ...) kthread_create((func), (data), __VA_ARGS__)
#define kthread_create_on_cpu(func, data, cpu, name) \
	cmwq_kthread_on_cpu(kthread_create((func), (data), (name), (cpu)), (cpu))

/* The caller calls this before it wakes the thread for the first time. */
static inline void kthread_bind(struct task_struct *task, unsigned int cpu)
{
	cmwq_kthread_of(task)->cpu = (int)cpu;
}

static inline CMWQ_MUST_CHECK struct task_struct *cmwq_kthread_on_cpu(struct task_struct *task,
	unsigned int cpu)
{
	if (!IS_ERR(task))
		kthread_bind(task, cpu);
	return task;
}

static inline CMWQ_MUST_CHECK struct task_struct *cmwq_kthread_start(struct task_struct *task)
{
	if (!IS_ERR(task))
		wake_up_process(task);
	return task;
}

#define kthread_run(func, data, ...) cmwq_kthread_start(kthread_create((func), (data), __VA_ARGS__))
#define kthread_run_on_cpu(func, data, cpu, name) \
	cmwq_kthread_start(kthread_create_on_cpu((func), (data), (cpu), (name)))

static inline void kthread_unpark(struct task_struct *task)
{
	struct cmwq_kthread *thread = cmwq_kthread_of(task);

	pthread_mutex_lock(&thread->lock);
	__atomic_fetch_and(&thread->flags, ~CMWQ_KTHREAD_PARK, __ATOMIC_SEQ_CST);
	pthread_cond_broadcast(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
	wake_up_process(task);
}

/* Asks the thread to park and waits until it does. */
static inline int kthread_park(struct task_struct *task)
{
	struct cmwq_kthread *thread = cmwq_kthread_of(task);

	if (__atomic_fetch_or(&thread->flags, CMWQ_KTHREAD_PARK, __ATOMIC_SEQ_CST) &
		CMWQ_KTHREAD_PARK)
		return -EBUSY;
	if (task == current)
		return 0;
	wake_up_process(task);
	pthread_mutex_lock(&thread->lock);
	while (!thread->parked)
		cmwq_cond_wait(&thread->changed, &thread->lock);
	pthread_mutex_unlock(&thread->lock);
	return 0;
}

/*
 * Asks the thread to end, waits until it has, and returns what its function returned. -EINTR: the
 * function was never called. 0: the function has ended the thread by pthread_exit() or a
 * cancellation. -EDEADLK, with a warning: the caller is that thread, so it is not asked to end.
 */
static inline int kthread_stop(struct task_struct *task)
{
	struct cmwq_kthread *thread = cmwq_kthread_of(task);
	int result;

	if (WARN_ONCE(task == current, "a kthread stops itself, and would wait for its own end\n"))
		return -EDEADLK;
	__atomic_fetch_or(&thread->flags, CMWQ_KTHREAD_STOP, __ATOMIC_SEQ_CST);
	kthread_unpark(task);
	wait_for_completion(&thread->exited);
	result = thread->result;
	put_task_struct(task);
	return result;
}

static inline int kthread_stop_put(struct task_struct *task)
{
	int result = kthread_stop(task);

	put_task_struct(task);
	return result;
}

static inline void *kthread_data(struct task_struct *task)
{
	return cmwq_kthread_of(task)->data;
}

#define kthread_probe_data(task) kthread_data(task)

/* The caller calls this before it wakes the thread for the first time. */
#define kthread_bind_mask(task, cpus) ((void)set_cpus_allowed_ptr((task), (cpus)))
#define kthread_affine_preferred(task, cpus) set_cpus_allowed_ptr((task), (cpus))

static inline int (*kthread_func(struct task_struct *task))(void *data)
{
	return cmwq_kthread_of(task)->func;
}

/*
 * The calling thread ends; kthread_stop() returns `result`. In the function of a kthread_work only
 * that ends.
 */
__attribute__((__noreturn__)) static inline void kthread_exit(long result)
{
	struct cmwq_kthread *thread = cmwq_kthread_of(current);

	thread->result = (int)result;
	pthread_exit(NULL);
}

#define kthread_complete_and_exit(done, result)    \
	do {                                       \
		if (done)                          \
			complete(done);            \
		kthread_exit(result);              \
	} while (0)

#endif
#include <linux/cmwq_kthread_worker.h>
#endif

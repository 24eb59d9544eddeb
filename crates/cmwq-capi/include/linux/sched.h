/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: threads that sleep and
 * are woken. A work function that sleeps by these lets another item run meanwhile. Nothing
 * interrupts a sleep: there are no signals here. A program that brings its own defines
 * CMWQ_NO_SCHED.
 */
#ifndef CMWQ_LINUX_SCHED_H
#define CMWQ_LINUX_SCHED_H

#include <linux/cmwq_base.h>
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/sched.h"
#include <linux/cmwq_next.h>

#ifndef CMWQ_NO_SCHED

#include <limits.h>
#include <linux/bitmap.h>
#include <linux/bug.h>
#ifndef __cplusplus
#include <linux/compiler.h>
#endif
#include <linux/kernel.h>
#include <linux/jiffies.h>
#include <linux/cmwq_delay.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A thread of any kind. `state` is one of the values below. */
struct task_struct {
	unsigned int __state;
	unsigned int cmwq_refs;
	int pid;
	unsigned int cmwq_reserved;
	void *cmwq_thread;
	unsigned int cmwq_depth;
	uint64_t cmwq_began;
	/*
	 * The thread's name when it first called `current`, or the one that kthread_create() gave
	 * it.
	 */
	char comm[16];
};

CMWQ_ASSERT(sizeof(struct task_struct) == sizeof(struct cmwq_task), "layout of task_struct");

#define TASK_RUNNING 0u
#define TASK_INTERRUPTIBLE 1u
#define TASK_UNINTERRUPTIBLE 2u
#define TASK_WAKEKILL 0x100u
#define TASK_NOLOAD 0x400u
#define TASK_KILLABLE (TASK_WAKEKILL | TASK_UNINTERRUPTIBLE)
#define TASK_IDLE (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)
#define TASK_NORMAL (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)
#define TASK_FREEZABLE 0u

static inline struct task_struct *cmwq_current(void)
{
	return (struct task_struct *)(void *)cmwq_current_task();
}

#ifdef __cplusplus
/* No macro, since the standard library has members of that name. */
extern "C++" {
struct cmwq_current_thread {
	operator struct task_struct *() const
	{
		return cmwq_current();
	}
	struct task_struct *operator->() const
	{
		return cmwq_current();
	}
};
static const struct cmwq_current_thread current __attribute__((__unused__)) = {};
}
#else
#ifndef current
#define current (cmwq_current())
#endif
#endif

static inline void get_task_struct(struct task_struct *task)
{
	cmwq_task_get((struct cmwq_task *)(void *)task);
}

static inline void put_task_struct(struct task_struct *task)
{
	cmwq_task_put((struct cmwq_task *)(void *)task);
}

/*
 * The caller sets its state before it checks its condition: a thread that makes the condition
 * true afterwards wakes it.
 */
#define set_current_state(state) __atomic_store_n(&current->__state, (state), __ATOMIC_SEQ_CST)
#define __set_current_state(state) __atomic_store_n(&current->__state, (state), __ATOMIC_RELAXED)
#define set_special_state(state) set_current_state(state)
#define get_current_state() __atomic_load_n(&current->__state, __ATOMIC_RELAXED)

/*
 * Sleeps until another thread wakes the calling one, unless that has happened since the caller set
 * its state. In either case the caller sees what the waker did before.
 */
static inline void schedule(void)
{
	if (__atomic_load_n(&current->__state, __ATOMIC_ACQUIRE) == TASK_RUNNING)
		sched_yield();
	else
		cmwq_task_sleep_ns(UINT64_MAX);
}

#define io_schedule() schedule()

/* Returns how many jiffies were left. */
static inline long schedule_timeout(long timeout)
{
	unsigned long end = jiffies + (unsigned long)timeout;
	long left;

	if (timeout == MAX_SCHEDULE_TIMEOUT) {
		schedule();
		return timeout;
	}
	cmwq_task_sleep_ns(timeout > 0 ? cmwq_jiffies_to_ns((unsigned long)timeout) : 0);
	left = (long)(end - jiffies);
	return left < 0 ? 0 : left;
}

static inline long schedule_timeout_uninterruptible(long timeout)
{
	__set_current_state(TASK_UNINTERRUPTIBLE);
	return schedule_timeout(timeout);
}

static inline long schedule_timeout_interruptible(long timeout)
{
	return schedule_timeout_uninterruptible(timeout);
}

/* Returns 1 if the thread slept or was about to sleep. */
static inline int wake_up_process(struct task_struct *task)
{
	return cmwq_task_wake((struct cmwq_task *)(void *)task, TASK_NORMAL);
}

static inline int wake_up_state(struct task_struct *task, unsigned int state)
{
	return cmwq_task_wake((struct cmwq_task *)(void *)task, state);
}

static inline int task_pid_nr(struct task_struct *task)
{
	return task->pid;
}

static inline int signal_pending(struct task_struct *task)
{
	(void)task;
	return 0;
}

/* For output only: the thread may change its state meanwhile. */
#define get_task_comm(text, task) ((char *)memcpy((text), (task)->comm, TASK_COMM_LEN))
#define task_tgid_nr(task) ((void)(task), getpid())

#define MIN_NICE (-20)
#define MAX_NICE 19

/* The system sets it as far as it permits that to the process. */
static inline void set_user_nice(struct task_struct *task, long nice)
{
	setpriority(PRIO_PROCESS, (id_t)task->pid, (int)nice);
}

#ifndef CMWQ_NO_CPUMASK
struct cpumask;

/* -EINVAL: the process may use none of them. */
static inline int set_cpus_allowed_ptr(struct task_struct *task, const struct cpumask *cpus)
{
	return cmwq_task_allow((struct cmwq_task *)(void *)task,
		(const struct cmwq_cpumask *)(const void *)cpus);
}
#endif

#define fatal_signal_pending(task) signal_pending(task)
#define signal_pending_state(state, task) signal_pending(task)
static inline int cond_resched(void)
{
	sched_yield();
	return 0;
}

static inline void yield(void)
{
	sched_yield();
}

#define need_resched() 0
#define might_sleep() ((void)0)

/* Nothing kills a thread. */
#define schedule_timeout_killable(timeout) schedule_timeout_uninterruptible(timeout)
#define schedule_timeout_idle(timeout) schedule_timeout_uninterruptible(timeout)
#define might_sleep_if(condition) ((void)0)
#define cond_resched_lock(lock)     \
	__extension__({             \
		spin_unlock(lock);  \
		cond_resched();     \
		spin_lock(lock);    \
		1;                  \
	})

#define TASK_COMM_LEN 16
#define io_schedule_timeout(timeout) schedule_timeout(timeout)
#define might_resched() ((void)0)
#define task_is_running(task) (__atomic_load_n(&(task)->__state, __ATOMIC_RELAXED) == TASK_RUNNING)

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the kernel-shaped headers of cmwq share. Each of them that steps aside passes on to the next
 * header of its name on the include path, which is the program's own, or the system's.
 */
#ifndef CMWQ_LINUX_CMWQ_BASE_H
#define CMWQ_LINUX_CMWQ_BASE_H

#include <cmwq.h>
#include <pthread.h>

/* `value` as it is when it is assigned to `place`: atomic builtins take a pointer to any type. */
#define CMWQ_AS_ASSIGNED(place, value)               \
	__extension__({                              \
		__typeof__(place) cmwq_as = (value); \
		cmwq_as;                             \
	})

/*
 * Waits as pthread_cond_wait() does. A cancellation would leave that function with the mutex
 * locked, so here the thread is cancelled later. Taking a lock of these headers is therefore no
 * cancellation point, as with POSIX mutexes.
 */
static inline void cmwq_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_cond_wait(changed, lock);
	pthread_setcancelstate(before, NULL);
}

/* All at once: only <linux/workqueue.h> is ours then. */
#ifdef CMWQ_NO_NEIGHBOURS
#undef CMWQ_NO_CONTAINER_OF
#undef CMWQ_NO_TYPES
#undef CMWQ_NO_LIST_HEAD
#undef CMWQ_NO_JIFFIES
#undef CMWQ_NO_CPUMASK
#undef CMWQ_NO_COMPLETION
#undef CMWQ_NO_ERR
#undef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NO_SLAB
#undef CMWQ_NO_PRINTK
#undef CMWQ_NO_BUG
#undef CMWQ_NO_DELAY
#undef CMWQ_NO_MUTEX
#undef CMWQ_NO_SPINLOCK
#undef CMWQ_NO_ATOMIC
#undef CMWQ_NO_LIST
#undef CMWQ_NO_MODULE
#undef CMWQ_NO_KTIME
#undef CMWQ_NO_WAIT
#undef CMWQ_NO_SCHED
#undef CMWQ_NO_KTHREAD
#undef CMWQ_NO_TIMER
#undef CMWQ_NO_BITOPS
#undef CMWQ_NO_REFCOUNT
#undef CMWQ_NO_LLIST
#undef CMWQ_NO_RCUPDATE
#undef CMWQ_NO_RWSEM
#undef CMWQ_NO_SORT
#undef CMWQ_NO_FS
#undef CMWQ_NO_LOCKDEP
#undef CMWQ_NO_PREEMPT
#undef CMWQ_NO_IRQFLAGS
#undef CMWQ_NO_FREEZER
#undef CMWQ_NO_PERCPU
#undef CMWQ_NO_SEMAPHORE
#undef CMWQ_NO_KOBJECT
#undef CMWQ_NO_NODEMASK
#undef CMWQ_NO_INTERRUPT
#undef CMWQ_NO_NOTIFIER
#define CMWQ_NO_CONTAINER_OF
#define CMWQ_NO_TYPES
#define CMWQ_NO_LIST_HEAD
#define CMWQ_NO_JIFFIES
#define CMWQ_NO_CPUMASK
#define CMWQ_NO_COMPLETION
#define CMWQ_NO_ERR
#define CMWQ_NO_KERNEL_MACROS
#define CMWQ_NO_SLAB
#define CMWQ_NO_PRINTK
#define CMWQ_NO_BUG
#define CMWQ_NO_DELAY
#define CMWQ_NO_MUTEX
#define CMWQ_NO_SPINLOCK
#define CMWQ_NO_ATOMIC
#define CMWQ_NO_LIST
#define CMWQ_NO_MODULE
#define CMWQ_NO_KTIME
#define CMWQ_NO_WAIT
#define CMWQ_NO_SCHED
#define CMWQ_NO_KTHREAD
#define CMWQ_NO_TIMER
#define CMWQ_NO_BITOPS
#define CMWQ_NO_REFCOUNT
#define CMWQ_NO_LLIST
#define CMWQ_NO_RCUPDATE
#define CMWQ_NO_RWSEM
#define CMWQ_NO_SORT
#define CMWQ_NO_FS
#define CMWQ_NO_LOCKDEP
#define CMWQ_NO_PREEMPT
#define CMWQ_NO_IRQFLAGS
#define CMWQ_NO_FREEZER
#define CMWQ_NO_PERCPU
#define CMWQ_NO_SEMAPHORE
#define CMWQ_NO_KOBJECT
#define CMWQ_NO_NODEMASK
#define CMWQ_NO_INTERRUPT
#define CMWQ_NO_NOTIFIER
#endif

/* If the program brings another library's list, that has functions of its own. */
#if defined(CMWQ_NO_LIST_HEAD) && !defined(CMWQ_NO_LIST)
#define CMWQ_NO_LIST
#endif

#endif

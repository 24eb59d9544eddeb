/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: what lies on the calling
 * thread's stack. A program that brings its own defines CMWQ_NO_SCHED.
 */
#ifndef CMWQ_LINUX_SCHED_TASK_STACK_H
#define CMWQ_LINUX_SCHED_TASK_STACK_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SCHED
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/sched/task_stack.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SCHED

#include <linux/sched.h>
#include <pthread.h>

/* Declared by the system only where all of its names are wanted, as they always are in C++. */
#ifndef __cplusplus
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attr);
int pthread_attr_getstack(const pthread_attr_t *attr, void **base, size_t *size);
#endif

static inline int object_is_on_stack(const void *object)
{
	pthread_attr_t attr;
	void *base;
	size_t size;
	int is;

	if (pthread_getattr_np(pthread_self(), &attr))
		return 0;
	is = !pthread_attr_getstack(&attr, &base, &size) && (const char *)object >= (char *)base &&
		(const char *)object < (char *)base + size;
	pthread_attr_destroy(&attr);
	return is;
}

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that wait for one another, for the kernel-shaped headers. Part of <cmwq.h>, which
 * includes it.
 */
#ifndef CMWQ_H
#include "cmwq.h"
#elif !defined(CMWQ_TASK_H)
#define CMWQ_TASK_H

#ifdef __cplusplus
extern "C" {
#endif

/* A thread. Its memory stays while there are references; the thread has one itself. */
struct cmwq_task {
	/*
	 * 0: it runs. The thread sets it before it checks whether it has to sleep; its waker sets
	 * it back to 0.
	 */
	unsigned int state;
	unsigned int private_refs;
	int pid;
	unsigned int private_reserved;
	void *private_thread;
	unsigned int private_depth;
	uint64_t private_began;
	/*
	 * Its name, without what exceeds 15 bytes: that of the thread when it was first asked for,
	 * or given by cmwq_task_name().
	 */
	char name[16];
};

/* The calling thread. */
struct cmwq_task *cmwq_current_task(void);
void cmwq_task_get(struct cmwq_task *task);
void cmwq_task_put(struct cmwq_task *task);
/* Wakes it if its state is among these bits. true: it was. */
bool cmwq_task_wake(struct cmwq_task *task, unsigned int states);
/* Lets it run on one CPU only. -ENODEV: there is no such CPU, or the process may not use it. */
int cmwq_task_bind(struct cmwq_task *task, int cpu);
/* Lets it run on some CPUs only. -EINVAL: the process may use none of them. */
int cmwq_task_allow(struct cmwq_task *task, const struct cmwq_cpumask *cpus);
/* Names the calling thread, for the system too. */
void cmwq_task_name(const char *name);
/*
 * The calling thread sleeps while its state is not 0, for `ns` at most; its state is 0 afterwards.
 * false: the time was over.
 */
bool cmwq_task_sleep_ns(uint64_t ns);
/*
 * Calls func(arg). false: it has ended the calling thread, by pthread_exit() or a cancellation; the
 * thread goes on nevertheless, and is not cancelled again. With musl, and on other machines than
 * x86-64 and 64-bit Arm, the thread ends.
 */
bool cmwq_task_call(void (*func)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif

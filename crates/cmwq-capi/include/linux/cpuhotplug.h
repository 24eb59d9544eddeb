/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: CPUs that come and go,
 * as far as the process is concerned: what it may use grows and shrinks by hotplug, cpusets and
 * taskset. While there are states, an item checks for changes every half second. Callbacks run on a
 * worker, under the write side of cpus_read_lock(), when the change has happened: no CPU waits for
 * a callback. A callback may take that lock for reading. A callback that changes states would wait
 * for its own end, so it gets -EDEADLK, with a warning. If a callback ends its thread, by
 * pthread_exit() for example, only the call ends, and a startup counts as refused (-EINTR). A
 * program that brings its own header defines CMWQ_NO_CPUMASK.
 */
#ifndef CMWQ_LINUX_CPUHOTPLUG_H
#define CMWQ_LINUX_CPUHOTPLUG_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CPUMASK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/cpuhotplug.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_CPUMASK

#include <errno.h>
#include <linux/bug.h>
#include <linux/cpumask.h>
#include <linux/list.h>
#include <pthread.h>
#include <stdio.h>

/*
 * Numbers of the kernel's names; a state that comes later is started later and torn down earlier.
 */
enum cpuhp_state {
	CPUHP_INVALID = -1,
	CPUHP_OFFLINE = 0,
	CPUHP_CREATE_THREADS,
	CPUHP_WORKQUEUE_PREP,
	CPUHP_PADATA_DEAD,
	CPUHP_BP_PREPARE_DYN,
	CPUHP_BP_PREPARE_DYN_END = CPUHP_BP_PREPARE_DYN + 20,
	CPUHP_AP_WORKQUEUE_ONLINE,
	CPUHP_AP_ONLINE_DYN,
	CPUHP_AP_ONLINE_DYN_END = CPUHP_AP_ONLINE_DYN + 40,
	CPUHP_ONLINE
};

enum { CMWQ_CPUHP_LOOK_MS = 500, CMWQ_CPUHP_SOON_MS = 5 };

struct cmwq_cpuhp_step {
	/* NULL: free. */
	const char *name;
	bool multi;
	int (*startup)(unsigned int cpu);
	int (*teardown)(unsigned int cpu);
	int (*startup_of)(unsigned int cpu, struct hlist_node *node);
	int (*teardown_of)(unsigned int cpu, struct hlist_node *node);
	struct hlist_head instances;
};

/* Zeros are no states. */
struct cmwq_cpuhp {
	/* Of the two that follow. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/*
	 * Holders of cpus_read_lock(): no callback for a change runs. And the item that has found
	 * one.
	 */
	unsigned int readers;
	bool written;
	/* The task that writes, and the one that changes the states. Either calls callbacks. */
	struct cmwq_task *writer, *changer;
	/* Of the states. Before it: cpus_read_lock(). */
	pthread_mutex_t states;
	unsigned int nr_states;
	struct cmwq_cpuhp_step steps[CPUHP_ONLINE];
	/*
	 * The CPUs that all states have been started for, and those of them where one has refused.
	 */
	struct cpumask known, refused;
	struct cmwq_delayed_work look;
};

#ifdef __cplusplus
extern "C" {
#endif
__attribute__((__weak__)) struct cmwq_cpuhp cmwq_cpuhp;
#ifdef __cplusplus
}
#endif

/* true: it is locked. A thread that reads or writes may read again. */
static inline bool cmwq_cpus_lock(bool write, bool wait)
{
	struct cmwq_task *own = cmwq_current_task();
	bool locked;

	pthread_mutex_lock(&cmwq_cpuhp.lock);
	while (wait && ((cmwq_cpuhp.written && cmwq_cpuhp.writer != own) ||
		(write && cmwq_cpuhp.readers)))
		cmwq_cond_wait(&cmwq_cpuhp.changed, &cmwq_cpuhp.lock);
	locked = !(cmwq_cpuhp.written && cmwq_cpuhp.writer != own) &&
		!(write && cmwq_cpuhp.readers);
	if (locked && write) {
		cmwq_cpuhp.written = true;
		__atomic_store_n(&cmwq_cpuhp.writer, own, __ATOMIC_RELAXED);
	}
	if (locked && !write)
		cmwq_cpuhp.readers++;
	pthread_mutex_unlock(&cmwq_cpuhp.lock);
	return locked;
}

static inline void cmwq_cpus_unlock(bool write)
{
	pthread_mutex_lock(&cmwq_cpuhp.lock);
	if (write) {
		cmwq_cpuhp.written = false;
		__atomic_store_n(&cmwq_cpuhp.writer, NULL, __ATOMIC_RELAXED);
	} else {
		cmwq_cpuhp.readers--;
	}
	pthread_cond_broadcast(&cmwq_cpuhp.changed);
	pthread_mutex_unlock(&cmwq_cpuhp.lock);
}

static inline void cpus_read_lock(void)
{
	cmwq_cpus_lock(false, true);
}

/* 1: it is locked. */
static inline CMWQ_MUST_CHECK int cpus_read_trylock(void)
{
	return cmwq_cpus_lock(false, false);
}

static inline void cpus_read_unlock(void)
{
	cmwq_cpus_unlock(false);
}

#define lockdep_assert_cpus_held() ((void)0)

/*
 * Takes the lock of the states. false, with a warning: the caller is a callback, which the states
 * wait for.
 */
static inline bool cmwq_cpuhp_begin_change(void)
{
	struct cmwq_task *own = cmwq_current_task();
	/* Another thread may write both, but not this thread's own task. */
	bool is_callback = __atomic_load_n(&cmwq_cpuhp.writer, __ATOMIC_RELAXED) == own ||
		__atomic_load_n(&cmwq_cpuhp.changer, __ATOMIC_RELAXED) == own;

	if (WARN_ONCE(is_callback,
		"cpuhp: a callback changes states, which would wait for its own end\n"))
		return false;
	pthread_mutex_lock(&cmwq_cpuhp.states);
	__atomic_store_n(&cmwq_cpuhp.changer, own, __ATOMIC_RELAXED);
	return true;
}

static inline void cmwq_cpuhp_end_change(void)
{
	__atomic_store_n(&cmwq_cpuhp.changer, NULL, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&cmwq_cpuhp.states);
}

/* A call of a callback, and what it says. */
struct cmwq_cpuhp_call {
	int (*one)(unsigned int cpu);
	int (*of)(unsigned int cpu, struct hlist_node *node);
	unsigned int cpu;
	struct hlist_node *node;
	int result;
};

static inline void cmwq_cpuhp_run(void *arg)
{
	struct cmwq_cpuhp_call *call = (struct cmwq_cpuhp_call *)arg;

	call->result = call->of ? call->of(call->cpu, call->node) : call->one(call->cpu);
}

static inline int cmwq_cpuhp_call(struct cmwq_cpuhp_call call)
{
	if (!call.one && !call.of)
		return 0;
	return cmwq_task_call(cmwq_cpuhp_run, &call) ? call.result : -EINTR;
}

static inline int cmwq_cpuhp_start(struct cmwq_cpuhp_step *step, unsigned int cpu,
	struct hlist_node *node)
{
	const struct cmwq_cpuhp_call call = {step->multi ? NULL : step->startup,
		step->multi ? step->startup_of : NULL, cpu, node, 0};

	return cmwq_cpuhp_call(call);
}

static inline void cmwq_cpuhp_tear(struct cmwq_cpuhp_step *step, unsigned int cpu,
	struct hlist_node *node)
{
	const struct cmwq_cpuhp_call call = {step->multi ? NULL : step->teardown,
		step->multi ? step->teardown_of : NULL, cpu, node, 0};
	int failed = cmwq_cpuhp_call(call);

	if (failed)
		fprintf(stderr, "cpuhp: %s: teardown for CPU %u said %d, which changes nothing\n",
			step->name, cpu, failed);
}

/*
 * Of the states from `from` down, for one CPU. `until`: instances of the first state before that
 * one only; NULL: all.
 */
static inline void cmwq_cpuhp_down(unsigned int cpu, int from, struct hlist_node *until)
{
	struct hlist_node *node;
	int state;

	for (state = from; state > CPUHP_OFFLINE; state--) {
		struct cmwq_cpuhp_step *step = &cmwq_cpuhp.steps[state];

		if (!step->name)
			continue;
		if (!step->multi) {
			cmwq_cpuhp_tear(step, cpu, NULL);
			continue;
		}
		for (node = step->instances.first; node && !(state == from && node == until);
			node = node->next)
			cmwq_cpuhp_tear(step, cpu, node);
	}
}

/* All states for one CPU, or none: then it counts as refused. */
static inline void cmwq_cpuhp_up(unsigned int cpu)
{
	struct hlist_node *node = NULL;
	int state, failed = 0;

	for (state = CPUHP_OFFLINE + 1; state < CPUHP_ONLINE && !failed; state++) {
		struct cmwq_cpuhp_step *step = &cmwq_cpuhp.steps[state];

		if (!step->name)
			continue;
		if (!step->multi) {
			failed = cmwq_cpuhp_start(step, cpu, NULL);
			if (failed)
				cmwq_cpuhp_down(cpu, state - 1, NULL);
		}
		for (node = step->multi ? step->instances.first : NULL; node && !failed;
			node = node->next) {
			failed = cmwq_cpuhp_start(step, cpu, node);
			if (failed)
				cmwq_cpuhp_down(cpu, state, node);
		}
	}
	if (failed) {
		fprintf(stderr, "cpuhp: a startup for CPU %u said %d: the states do without it\n",
			cpu, failed);
		cpumask_set_cpu(cpu, &cmwq_cpuhp.refused);
	}
}

static inline void cmwq_cpuhp_look_after(unsigned int ms)
{
	cmwq_queue_delayed_work_ns(cmwq_system_dfl_wq, &cmwq_cpuhp.look, ms * 1000000ull);
}

static inline void cmwq_cpuhp_look(struct cmwq_work *work)
{
	const struct cpumask *now;
	struct cpumask came, went;
	int cpu;

	(void)work;
	/* A holder of the lock may wait for this item. */
	if (!cmwq_cpus_lock(true, false)) {
		cmwq_cpuhp_look_after(CMWQ_CPUHP_SOON_MS);
		return;
	}
	now = cpu_online_mask;
	if (!cpumask_empty(now)) {
		cpumask_andnot(&went, &cmwq_cpuhp.known, now);
		cpumask_andnot(&came, now, &cmwq_cpuhp.known);
		cpumask_copy(&cmwq_cpuhp.known, now);
		for_each_cpu(cpu, &went) {
			if (!cpumask_test_cpu((unsigned int)cpu, &cmwq_cpuhp.refused))
				cmwq_cpuhp_down((unsigned int)cpu, CPUHP_ONLINE - 1, NULL);
			cpumask_clear_cpu((unsigned int)cpu, &cmwq_cpuhp.refused);
		}
		for_each_cpu(cpu, &came)
			cmwq_cpuhp_up((unsigned int)cpu);
	}
	cmwq_cpus_unlock(true);
	cmwq_cpuhp_look_after(CMWQ_CPUHP_LOOK_MS);
}

/* The CPUs that states are to be started for and torn down on. */
#define cmwq_cpuhp_for_each(cpu)                                \
	for_each_cpu(cpu, &cmwq_cpuhp.known)                    \
		if (!cpumask_test_cpu((unsigned int)(cpu), &cmwq_cpuhp.refused))

/* For all CPUs that there are, or none. */
static inline int cmwq_cpuhp_start_all(struct cmwq_cpuhp_step *step, struct hlist_node *node)
{
	int cpu, failed_cpu = -1, failed = 0;

	cmwq_cpuhp_for_each(cpu) {
		failed = cmwq_cpuhp_start(step, (unsigned int)cpu, node);
		failed_cpu = cpu;
		if (failed)
			break;
	}
	if (failed) {
		cmwq_cpuhp_for_each(cpu) {
			if (cpu == failed_cpu)
				break;
			cmwq_cpuhp_tear(step, (unsigned int)cpu, node);
		}
	}
	return failed;
}

static inline void cmwq_cpuhp_tear_all(struct cmwq_cpuhp_step *step, struct hlist_node *node)
{
	int cpu;

	cmwq_cpuhp_for_each(cpu)
		cmwq_cpuhp_tear(step, (unsigned int)cpu, node);
}

static inline int cmwq_cpuhp_free_state(int first, int last)
{
	while (first <= last && cmwq_cpuhp.steps[first].name)
		first++;
	return first <= last ? first : -ENOSPC;
}

/*
 * 0, or the state's number if it was left to us; -EINVAL, -EBUSY (it is taken), -ENOSPC, or what a
 * startup said.
 */
static inline int cmwq_cpuhp_set_up(enum cpuhp_state wanted, const struct cmwq_cpuhp_step *step,
	bool calls)
{
	int state = wanted, failed = 0;
	bool own = false;

	if (wanted <= CPUHP_OFFLINE || wanted >= CPUHP_ONLINE || !step->name)
		return -EINVAL;
	if (!cmwq_cpuhp_begin_change())
		return -EDEADLK;
	if (wanted == CPUHP_AP_ONLINE_DYN)
		state = cmwq_cpuhp_free_state(CPUHP_AP_ONLINE_DYN, CPUHP_AP_ONLINE_DYN_END);
	else if (wanted == CPUHP_BP_PREPARE_DYN)
		state = cmwq_cpuhp_free_state(CPUHP_BP_PREPARE_DYN, CPUHP_BP_PREPARE_DYN_END);
	else
		own = true;
	if (state < 0)
		failed = state;
	else if (cmwq_cpuhp.steps[state].name)
		failed = -EBUSY;
	if (!failed && cmwq_cpuhp.nr_states == 0) {
		cpumask_copy(&cmwq_cpuhp.known, cpu_online_mask);
		cpumask_clear(&cmwq_cpuhp.refused);
		cmwq_init_delayed_work(&cmwq_cpuhp.look, cmwq_cpuhp_look);
	}
	if (!failed) {
		cmwq_cpuhp.steps[state] = *step;
		if (calls && !step->multi)
			failed = cmwq_cpuhp_start_all(&cmwq_cpuhp.steps[state], NULL);
		if (failed)
			cmwq_cpuhp.steps[state].name = NULL;
		else if (cmwq_cpuhp.nr_states++ == 0)
			cmwq_cpuhp_look_after(CMWQ_CPUHP_LOOK_MS);
	}
	cmwq_cpuhp_end_change();
	return failed ? failed : own ? 0 : state;
}

static inline void cmwq_cpuhp_remove(enum cpuhp_state state, bool calls)
{
	struct cmwq_cpuhp_step *step;

	if (state <= CPUHP_OFFLINE || state >= CPUHP_ONLINE)
		return;
	step = &cmwq_cpuhp.steps[state];
	if (!cmwq_cpuhp_begin_change())
		return;
	if (step->name) {
		if (step->multi && step->instances.first)
			fprintf(stderr, "cpuhp: %s: removed with instances in it\n", step->name);
		if (calls && !step->multi)
			cmwq_cpuhp_tear_all(step, NULL);
		step->name = NULL;
		if (--cmwq_cpuhp.nr_states == 0)
			cmwq_cancel_delayed_work_sync(&cmwq_cpuhp.look);
	}
	cmwq_cpuhp_end_change();
}

static inline int cmwq_cpuhp_add(enum cpuhp_state state, struct hlist_node *node, bool calls)
{
	struct cmwq_cpuhp_step *step;
	int failed = -EINVAL;

	if (state <= CPUHP_OFFLINE || state >= CPUHP_ONLINE)
		return failed;
	step = &cmwq_cpuhp.steps[state];
	if (!cmwq_cpuhp_begin_change())
		return -EDEADLK;
	if (step->name && step->multi) {
		failed = calls ? cmwq_cpuhp_start_all(step, node) : 0;
		if (!failed)
			hlist_add_head(node, &step->instances);
	}
	cmwq_cpuhp_end_change();
	return failed;
}

static inline int cmwq_cpuhp_take_out(enum cpuhp_state state, struct hlist_node *node, bool calls)
{
	struct cmwq_cpuhp_step *step;
	int failed = -EINVAL;

	if (state <= CPUHP_OFFLINE || state >= CPUHP_ONLINE)
		return failed;
	step = &cmwq_cpuhp.steps[state];
	if (!cmwq_cpuhp_begin_change())
		return -EDEADLK;
	if (step->name && step->multi) {
		if (calls)
			cmwq_cpuhp_tear_all(step, node);
		hlist_del_init(node);
		failed = 0;
	}
	cmwq_cpuhp_end_change();
	return failed;
}

/*
 * ---- the kernel's names. Those without _cpuslocked take the lock; those with _nocalls call
 * nothing for the CPUs that there are ----
 */

#define CMWQ_CPUHP_LOCKED(type, call)  \
	type cmwq_result;              \
	cpus_read_lock();              \
	cmwq_result = (call);          \
	cpus_read_unlock();            \
	return cmwq_result

#define CMWQ_CPUHP_STEP(name, one, one_down, many, many_down, is_multi) \
	{                                                               \
		name, is_multi, one, one_down, many, many_down,         \
		{                                                       \
			NULL                                            \
		}                                                       \
	}

#define CMWQ_CPUHP_SETUP(suffix, calls)                                                            \
	static inline int cpuhp_setup_state##suffix##_cpuslocked(enum cpuhp_state state,           \
		const char *name, int (*startup)(unsigned int), int (*teardown)(unsigned int))     \
	{                                                                                          \
		const struct cmwq_cpuhp_step step = CMWQ_CPUHP_STEP(name, startup, teardown, NULL, \
			NULL, false);                                                              \
		return cmwq_cpuhp_set_up(state, &step, calls);                                     \
	}                                                                                          \
	static inline int cpuhp_setup_state##suffix(enum cpuhp_state state, const char *name,      \
		int (*startup)(unsigned int), int (*teardown)(unsigned int))                       \
	{                                                                                          \
		CMWQ_CPUHP_LOCKED(int,                                                             \
			cpuhp_setup_state##suffix##_cpuslocked(state, name, startup, teardown));   \
	}                                                                                          \
	static inline void cpuhp_remove_state##suffix##_cpuslocked(enum cpuhp_state state)         \
	{                                                                                          \
		cmwq_cpuhp_remove(state, calls);                                                   \
	}                                                                                          \
	static inline void cpuhp_remove_state##suffix(enum cpuhp_state state)                      \
	{                                                                                          \
		cpus_read_lock();                                                                  \
		cmwq_cpuhp_remove(state, calls);                                                   \
		cpus_read_unlock();                                                                \
	}                                                                                          \
	static inline int cpuhp_state_add_instance##suffix##_cpuslocked(enum cpuhp_state state,    \
		struct hlist_node *node)                                                           \
	{                                                                                          \
		return cmwq_cpuhp_add(state, node, calls);                                         \
	}                                                                                          \
	static inline int cpuhp_state_add_instance##suffix(enum cpuhp_state state,                 \
		struct hlist_node *node)                                                           \
	{                                                                                          \
		CMWQ_CPUHP_LOCKED(int, cmwq_cpuhp_add(state, node, calls));                        \
	}                                                                                          \
	static inline int cpuhp_state_remove_instance##suffix##_cpuslocked(enum cpuhp_state state, \
		struct hlist_node *node)                                                           \
	{                                                                                          \
		return cmwq_cpuhp_take_out(state, node, calls);                                    \
	}                                                                                          \
	static inline int cpuhp_state_remove_instance##suffix(enum cpuhp_state state,              \
		struct hlist_node *node)                                                           \
	{                                                                                          \
		CMWQ_CPUHP_LOCKED(int, cmwq_cpuhp_take_out(state, node, calls));                   \
	}
CMWQ_CPUHP_SETUP(, true)
CMWQ_CPUHP_SETUP(_nocalls, false)
#undef CMWQ_CPUHP_SETUP

/* Instances are structures with a struct hlist_node. */
static inline int cpuhp_setup_state_multi(enum cpuhp_state state, const char *name,
	int (*startup)(unsigned int, struct hlist_node *),
	int (*teardown)(unsigned int, struct hlist_node *))
{
	const struct cmwq_cpuhp_step step = CMWQ_CPUHP_STEP(name, NULL, NULL, startup, teardown,
		true);

	CMWQ_CPUHP_LOCKED(int, cmwq_cpuhp_set_up(state, &step, false));
}

static inline void cpuhp_remove_multi_state(enum cpuhp_state state)
{
	cpuhp_remove_state_nocalls(state);
}

#endif
#endif

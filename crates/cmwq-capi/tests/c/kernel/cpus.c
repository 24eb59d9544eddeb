/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * States for CPUs that come and go: callbacks for those that there are, for instances, for a CPU that the process loses and gets back (by its
 * affinity, which is taken from all its threads), and none while a thread holds cpus_read_lock().
 *
 * Seen to fail with: teardown in ascending order; no rollback of a startup that failed; the lock taken for reading by the item that looks;
 * known CPUs not updated.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/atomic.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/list.h>
#include <sched.h>

#include "check.h"

static struct cpumask started;
static int refuses_at = -1;
static atomic_t nr_calls, nr_torn;

static int start(unsigned int cpu)
{
	atomic_inc(&nr_calls);
	if ((int)cpu == refuses_at)
		return -EIO;
	CHECK(!cpumask_test_cpu(cpu, &started));
	cpumask_set_cpu(cpu, &started);
	return 0;
}

static int tear(unsigned int cpu)
{
	atomic_inc(&nr_torn);
	CHECK(cpumask_test_cpu(cpu, &started));
	cpumask_clear_cpu(cpu, &started);
	return 0;
}

struct engine {
	struct hlist_node node;
	struct cpumask cpus;
};

static int engine_start(unsigned int cpu, struct hlist_node *node)
{
	struct engine *engine = hlist_entry_safe(node, struct engine, node);

	/* The state that was set up before this one comes first. */
	CHECK(cpumask_test_cpu(cpu, &started) && !cpumask_test_cpu(cpu, &engine->cpus));
	cpumask_set_cpu(cpu, &engine->cpus);
	return 0;
}

static int engine_tear(unsigned int cpu, struct hlist_node *node)
{
	struct engine *engine = hlist_entry_safe(node, struct engine, node);

	/* And goes last. */
	CHECK(cpumask_test_cpu(cpu, &started) && cpumask_test_cpu(cpu, &engine->cpus));
	cpumask_clear_cpu(cpu, &engine->cpus);
	return 0;
}

static int own_state, nr_asked, nr_ended;

/* Callbacks that change states, and one that ends its thread. */
static int asks(unsigned int cpu)
{
	cpus_read_lock();
	CHECK(cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "test:inner", start, tear) == -EDEADLK);
	CHECK(cpuhp_state_add_instance((enum cpuhp_state)own_state, NULL) == -EDEADLK);
	cpuhp_remove_state((enum cpuhp_state)own_state);
	cpus_read_unlock();
	__atomic_fetch_add(&nr_asked, 1, __ATOMIC_SEQ_CST);
	(void)cpu;
	return 0;
}

static int ends(unsigned int cpu)
{
	(void)cpu;
	__atomic_fetch_add(&nr_ended, 1, __ATOMIC_SEQ_CST);
#ifdef __GLIBC__
	pthread_exit(NULL);
#else
	return -EINTR;
#endif
}

/* Of all threads that the process has. */
static void bind_all(const cpu_set_t *cpus)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;

	CHECK(tasks);
	while ((task = readdir(tasks)))
		if (atoi(task->d_name))
			sched_setaffinity(atoi(task->d_name), sizeof(*cpus), cpus);
	closedir(tasks);
}

/* Threads that come meanwhile have the old ones. */
static void bind_until(const cpu_set_t *cpus, unsigned int online)
{
	uint64_t until = cmwq_now_ns() + SOON_NS;

	while (num_online_cpus() != online && cmwq_now_ns() < until) {
		bind_all(cpus);
		cmwq_flush_delayed_work(&cmwq_cpuhp.look);
		cmwq_sleep_ns(1000000);
	}
	CHECK(num_online_cpus() == online);
}

/* What callbacks cannot wait for is an error, and one that ends its thread leaves no lock behind. */
static void callbacks_of_their_own(const cpu_set_t *all, const cpu_set_t *fewer, unsigned int online)
{
	int other;

	own_state = CPUHP_AP_ONLINE_DYN;
	CHECK(cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "test:asks", asks, asks) == own_state && nr_asked == (int)online);
	CHECK(cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "test:ends", ends, NULL) == -EINTR && nr_ended == 1);
	other = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "test:ends", ends, ends);
	CHECK(other == own_state + 1);
	if (online > 1) {
		bind_until(fewer, online - 1);
		CHECK_SOON(__atomic_load_n(&nr_ended, __ATOMIC_SEQ_CST) == 2 && __atomic_load_n(&nr_asked, __ATOMIC_SEQ_CST) == (int)online + 1);
		bind_until(all, online);
		CHECK_SOON(__atomic_load_n(&nr_ended, __ATOMIC_SEQ_CST) == 3 && __atomic_load_n(&nr_asked, __ATOMIC_SEQ_CST) > (int)online + 1);
	}
	cpuhp_remove_state_nocalls((enum cpuhp_state)other);
	cpuhp_remove_state_nocalls((enum cpuhp_state)own_state);
	CHECK(cmwq_cpuhp.nr_states == 0 && cmwq_cpuhp.readers == 0 && !cmwq_cpuhp.written);
}

int main(void)
{
	unsigned int online = num_online_cpus();
	struct engine a = {{NULL, NULL}, {{0}}}, b = {{NULL, NULL}, {{0}}};
	int state, engines, last = (int)cpumask_last(cpu_online_mask), gone;
	cpu_set_t all, fewer = {{0}};

	/* A startup that fails undoes those before it. */
	refuses_at = last;
	CHECK(cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "test:refused", start, tear) == -EIO);
	CHECK(cpumask_empty(&started) && atomic_read(&nr_calls) == (int)online && atomic_read(&nr_torn) == (int)online - 1);
	refuses_at = -1;

	state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "test:cpus", start, tear);
	CHECK(state == CPUHP_AP_ONLINE_DYN && cpumask_equal(&started, cpu_online_mask));
	engines = cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "test:engines", engine_start, engine_tear);
	CHECK(engines == state + 1);
	CHECK(cpuhp_setup_state_nocalls(CPUHP_PADATA_DEAD, "test:dead", NULL, NULL) == 0);
	CHECK(cpuhp_setup_state_nocalls(CPUHP_PADATA_DEAD, "test:dead", NULL, NULL) == -EBUSY);
	CHECK(cpuhp_setup_state(CPUHP_OFFLINE, "x", NULL, NULL) == -EINVAL && cpuhp_state_add_instance((enum cpuhp_state)state, &a.node) == -EINVAL);
	CHECK(cpuhp_state_add_instance((enum cpuhp_state)engines, &a.node) == 0 && cpumask_equal(&a.cpus, cpu_online_mask));
	cpus_read_lock();
	lockdep_assert_cpus_held();
	CHECK(cpuhp_state_add_instance_nocalls_cpuslocked((enum cpuhp_state)engines, &b.node) == 0 && cpumask_empty(&b.cpus));
	/* It knows of the CPUs itself. */
	cpumask_copy(&b.cpus, cpu_online_mask);
	CHECK(cpus_read_trylock());
	cpus_read_unlock();
	cpus_read_unlock();

	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	if (online < 2) {
		printf("left out: CPUs that come and go, since the process may use one only\n");
	} else {
		fewer = all;
		CPU_CLR(last, &fewer);
		cpus_read_lock();
		bind_until(&fewer, online - 1);
		/* What looks now does nothing. */
		cmwq_flush_delayed_work(&cmwq_cpuhp.look);
		CHECK(cpumask_test_cpu((unsigned int)last, &started) && cpumask_test_cpu((unsigned int)last, &a.cpus));
		gone = atomic_read(&nr_torn) + 1;
		cpus_read_unlock();
		CHECK_SOON(atomic_read(&nr_torn) == gone);
		cpus_read_lock();
		CHECK(cpumask_weight(&started) == online - 1 && cpumask_equal(&started, &a.cpus) && cpumask_equal(&started, &b.cpus));
		CHECK(!cpumask_test_cpu((unsigned int)last, &started));
		cpus_read_unlock();

		bind_until(&all, online);
		CHECK_SOON(atomic_read(&nr_calls) == 2 * (int)online + 1);
		cpus_read_lock();
		CHECK(cpumask_weight(&started) == online && cpumask_equal(&started, &a.cpus) && cpumask_equal(&started, &b.cpus));
		cpus_read_unlock();
	}
	CHECK(cpuhp_state_remove_instance((enum cpuhp_state)engines, &a.node) == 0 && cpumask_empty(&a.cpus));
	CHECK(cpuhp_state_remove_instance_nocalls((enum cpuhp_state)engines, &b.node) == 0 && cpumask_weight(&b.cpus) == online);
	cpuhp_remove_multi_state((enum cpuhp_state)engines);
	cpuhp_remove_state((enum cpuhp_state)state);
	cpuhp_remove_state_nocalls(CPUHP_PADATA_DEAD);
	CHECK(cpumask_empty(&started) && cmwq_cpuhp.nr_states == 0 && !cmwq_work_pending(&cmwq_cpuhp.look.work));
	callbacks_of_their_own(&all, &fewer, online);
	return 0;
}

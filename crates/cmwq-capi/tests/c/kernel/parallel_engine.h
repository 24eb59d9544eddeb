/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An engine for parallel data in the manner of the kernel's padata, written from what its documentation says: jobs run in parallel on any CPU
 * of one mask and end one after the other, in the order in which they were begun, on a CPU of another. The masks are attribute files; a change
 * replaces what all streams stand on. CPUs that go and come change the masks.
 */
#ifndef PARALLEL_ENGINE_H
#define PARALLEL_ENGINE_H

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/export.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "check.h"

struct engine {
	struct hlist_node online, dead;
	struct workqueue_struct *parallel_wq, *serial_wq;
	struct list_head streams;
	/* What was asked for. */
	cpumask_var_t parallel, serial;
	struct kobject kobj;
	struct mutex lock;
	bool resets;
};

/* What waits to end on one CPU. */
struct serial_queue {
	struct list_head jobs;
	spinlock_t lock;
	struct work_struct work;
	struct parallel_data *pd;
};

/* Jobs that have run and whose turn has not come, of one CPU of the mask, by their numbers. */
struct reorder_queue {
	struct list_head jobs;
	spinlock_t lock;
};

struct parallel_data {
	struct reorder_queue __percpu *reorder;
	struct serial_queue __percpu *serial;
	refcount_t refs;
	atomic_t last_nr;
	unsigned int next_nr;
	spinlock_t lock;
	cpumask_var_t parallel_cpus, serial_cpus;
	struct completion unused;
};

struct stream {
	struct engine *engine;
	struct parallel_data __rcu *pd;
	struct list_head list;
};

struct job {
	struct list_head list;
	struct parallel_data *pd;
	struct work_struct work;
	unsigned int nr;
	int serial_cpu;
	void (*parallel)(struct job *job);
	void (*serial)(struct job *job);
};

static enum cpuhp_state hp_online;

#define kobj_to_engine(k) container_of(k, struct engine, kobj)

/* ---- the order ---- */

static int nth_cpu(unsigned int n, const struct cpumask *mask)
{
	int cpu = (int)cpumask_first(mask);

	for (n %= cpumask_weight(mask); n; n--)
		cpu = (int)cpumask_next(cpu, mask);
	return cpu;
}

static void free_data(struct parallel_data *pd)
{
	free_cpumask_var(pd->parallel_cpus);
	free_cpumask_var(pd->serial_cpus);
	free_percpu(pd->reorder);
	free_percpu(pd->serial);
	kfree(pd);
}

static struct job *next_job(struct parallel_data *pd)
{
	struct reorder_queue *queue = per_cpu_ptr(pd->reorder, nth_cpu(pd->next_nr, pd->parallel_cpus));
	struct job *job;

	lockdep_assert_held(&pd->lock);
	spin_lock(&queue->lock);
	job = list_first_entry_or_null(&queue->jobs, struct job, list);
	if (job && job->nr == pd->next_nr)
		list_del_init(&job->list);
	else
		job = NULL;
	spin_unlock(&queue->lock);
	return job;
}

/* Sends on all jobs whose turn has come. */
static void reorder(struct parallel_data *pd, const struct engine *engine)
{
	struct job *job;

	spin_lock_bh(&pd->lock);
	while ((job = next_job(pd))) {
		struct serial_queue *queue = per_cpu_ptr(pd->serial, job->serial_cpu);
		int cpu = job->serial_cpu;

		pd->next_nr++;
		spin_lock(&queue->lock);
		list_add_tail(&job->list, &queue->jobs);
		spin_unlock(&queue->lock);
		queue_work_on(cpu, engine->serial_wq, &queue->work);
	}
	spin_unlock_bh(&pd->lock);
}

static void put_data(struct parallel_data *pd, unsigned int refs)
{
	if (refcount_sub_and_test((int)refs, &pd->refs))
		complete(&pd->unused);
}

static void serial_worker(struct work_struct *work)
{
	struct serial_queue *queue = container_of(work, struct serial_queue, work);
	struct parallel_data *pd = queue->pd;
	struct job *job, *next;
	unsigned int count = 0;
	LIST_HEAD(jobs);

	spin_lock(&queue->lock);
	list_replace_init(&queue->jobs, &jobs);
	spin_unlock(&queue->lock);
	list_for_each_entry_safe(job, next, &jobs, list) {
		list_del_init(&job->list);
		job->serial(job);
		count++;
	}
	if (count)
		put_data(pd, count);
}

/* The parallel function has ended. */
static void do_serial(struct job *job, const struct engine *engine)
{
	struct parallel_data *pd = job->pd;
	struct reorder_queue *queue = per_cpu_ptr(pd->reorder, nth_cpu(job->nr, pd->parallel_cpus));
	struct list_head *at;

	/* Another thread may end the job, and the last of the stream's, before this one has looked for what comes next. */
	refcount_inc(&pd->refs);
	spin_lock(&queue->lock);
	/* Most often at the end. */
	list_for_each_prev(at, &queue->jobs) {
		if ((int)(list_entry(at, struct job, list)->nr - job->nr) < 0)
			break;
	}
	list_add(&job->list, at);
	spin_unlock(&queue->lock);
	reorder(pd, engine);
	put_data(pd, 1);
}

static void parallel_worker(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, work);

	local_bh_disable();
	job->parallel(job);
	local_bh_enable();
}

/* -EBUSY: the masks are being changed. -EINVAL: there is no CPU to end on. */
static int do_parallel(struct stream *stream, struct job *job, int *serial_cpu)
{
	struct parallel_data *pd;
	int failed = 0;

	rcu_read_lock_bh();
	pd = rcu_dereference_bh(stream->pd);
	/* False: the stream's jobs of before have ended, and what they wrote is seen. */
	if (smp_load_acquire(&stream->engine->resets)) {
		failed = -EBUSY;
	} else if (cpumask_empty(pd->serial_cpus)) {
		failed = -EINVAL;
	} else {
		if (!cpumask_test_cpu((unsigned int)*serial_cpu, pd->serial_cpus))
			*serial_cpu = nth_cpu((unsigned int)*serial_cpu, pd->serial_cpus);
		refcount_inc(&pd->refs);
		job->pd = pd;
		job->serial_cpu = *serial_cpu;
		job->nr = (unsigned int)atomic_inc_return(&pd->last_nr);
		INIT_WORK(&job->work, parallel_worker);
		queue_work(stream->engine->parallel_wq, &job->work);
	}
	rcu_read_unlock_bh();
	return failed;
}

/* ---- masks ---- */

static struct parallel_data *alloc_data(const struct engine *engine)
{
	struct parallel_data *pd = kzalloc(sizeof(*pd), GFP_KERNEL);
	int cpu;

	if (!pd)
		return NULL;
	pd->reorder = alloc_percpu(struct reorder_queue);
	pd->serial = alloc_percpu(struct serial_queue);
	CHECK(pd->reorder && pd->serial);
	CHECK(alloc_cpumask_var(&pd->parallel_cpus, GFP_KERNEL) && zalloc_cpumask_var(&pd->serial_cpus, GFP_KERNEL));
	cpumask_and(pd->parallel_cpus, engine->parallel, cpu_online_mask);
	cpumask_and(pd->serial_cpus, engine->serial, cpu_online_mask);
	if (cpumask_empty(pd->parallel_cpus))
		cpumask_copy(pd->parallel_cpus, cpu_online_mask);
	for_each_possible_cpu(cpu) {
		struct reorder_queue *reorder_queue = per_cpu_ptr(pd->reorder, cpu);
		struct serial_queue *queue = per_cpu_ptr(pd->serial, cpu);

		INIT_LIST_HEAD(&reorder_queue->jobs);
		spin_lock_init(&reorder_queue->lock);
		INIT_LIST_HEAD(&queue->jobs);
		spin_lock_init(&queue->lock);
		INIT_WORK(&queue->work, serial_worker);
		queue->pd = pd;
	}
	refcount_set(&pd->refs, 1);
	atomic_set(&pd->last_nr, -1);
	spin_lock_init(&pd->lock);
	init_completion(&pd->unused);
	return pd;
}

/* The stream's jobs have all ended when this returns: what begins afterwards ends after them. */
static void replace_data(struct stream *stream, struct parallel_data *pd)
{
	struct parallel_data *old = rcu_dereference_protected(stream->pd, 1);

	rcu_assign_pointer(stream->pd, pd);
	synchronize_rcu();
	put_data(old, 1);
	wait_for_completion(&old->unused);
	/* Their worker has said so, and may not have returned. */
	flush_workqueue(stream->engine->serial_wq);
	free_data(old);
}

static void replace_all(struct engine *engine)
{
	struct stream *stream;

	lockdep_assert_held(&engine->lock);
	/* A submitter that does not see it yet has the old data, and a reference to them when the grace period is over. */
	WRITE_ONCE(engine->resets, true);
	list_for_each_entry(stream, &engine->streams, list)
		replace_data(stream, alloc_data(engine));
	smp_store_release(&engine->resets, false);
}

static int cpu_online_engine(unsigned int cpu, struct hlist_node *node)
{
	struct engine *engine = hlist_entry_safe(node, struct engine, online);

	mutex_lock(&engine->lock);
	if (cpumask_test_cpu(cpu, engine->parallel) || cpumask_test_cpu(cpu, engine->serial))
		replace_all(engine);
	mutex_unlock(&engine->lock);
	return 0;
}

static int cpu_dead_engine(unsigned int cpu, struct hlist_node *node)
{
	struct engine *engine = hlist_entry_safe(node, struct engine, dead);

	mutex_lock(&engine->lock);
	if (cpumask_test_cpu(cpu, engine->parallel) || cpumask_test_cpu(cpu, engine->serial))
		replace_all(engine);
	mutex_unlock(&engine->lock);
	return 0;
}

/* ---- attributes ---- */

struct engine_attribute {
	struct attribute attr;
	ssize_t (*show)(struct engine *, struct attribute *, char *);
	ssize_t (*store)(struct engine *, struct attribute *, const char *, size_t);
};

static struct cpumask *mask_of(struct engine *engine, const struct attribute *attr)
{
	return strcmp(attr->name, "serial_cpumask") == 0 ? engine->serial : engine->parallel;
}

static ssize_t mask_show(struct engine *engine, struct attribute *attr, char *buf)
{
	int length;

	mutex_lock(&engine->lock);
	length = snprintf(buf, PAGE_SIZE, "%*pb\n", cpumask_pr_args(mask_of(engine, attr)));
	mutex_unlock(&engine->lock);
	return length < (int)PAGE_SIZE ? length : -EINVAL;
}

static ssize_t mask_store(struct engine *engine, struct attribute *attr, const char *buf, size_t count)
{
	cpumask_var_t given;
	int failed;

	if (!alloc_cpumask_var(&given, GFP_KERNEL))
		return -ENOMEM;
	cpumask_clear(given);
	failed = bitmap_parse(buf, (unsigned int)count, cpumask_bits(given), nr_cpumask_bits);
	if (!failed && !cpumask_intersects(given, cpu_online_mask))
		failed = -EINVAL;
	if (!failed) {
		cpus_read_lock();
		mutex_lock(&engine->lock);
		cpumask_copy(mask_of(engine, attr), given);
		replace_all(engine);
		mutex_unlock(&engine->lock);
		cpus_read_unlock();
	}
	free_cpumask_var(given);
	return failed ? failed : (ssize_t)count;
}

static struct engine_attribute serial_attr = __ATTR(serial_cpumask, 0644, mask_show, mask_store),
			       parallel_attr = __ATTR(parallel_cpumask, 0644, mask_show, mask_store);
static struct attribute *engine_attrs[] = {&serial_attr.attr, &parallel_attr.attr, NULL};
ATTRIBUTE_GROUPS(engine);

static ssize_t engine_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	return container_of(attr, struct engine_attribute, attr)->show(kobj_to_engine(kobj), attr, buf);
}

static ssize_t engine_store(struct kobject *kobj, struct attribute *attr, const char *buf, size_t count)
{
	return container_of(attr, struct engine_attribute, attr)->store(kobj_to_engine(kobj), attr, buf, count);
}

static bool released;

static void engine_release(struct kobject *kobj)
{
	struct engine *engine = kobj_to_engine(kobj);

	CHECK(list_empty(&engine->streams));
	cpuhp_state_remove_instance_nocalls(CPUHP_PADATA_DEAD, &engine->dead);
	cpuhp_state_remove_instance_nocalls(hp_online, &engine->online);
	destroy_workqueue(engine->serial_wq);
	destroy_workqueue(engine->parallel_wq);
	free_cpumask_var(engine->parallel);
	free_cpumask_var(engine->serial);
	kfree(engine);
	released = true;
}

static const struct sysfs_ops engine_ops = {.show = engine_show, .store = engine_store};
static const struct kobj_type engine_type = {.sysfs_ops = &engine_ops, .default_groups = engine_groups, .release = engine_release};

static struct engine *engine_alloc(const char *name)
{
	struct engine *engine = kzalloc(sizeof(*engine), GFP_KERNEL);

	CHECK(engine);
	engine->parallel_wq = alloc_workqueue("%s_parallel", WQ_UNBOUND, 0, name);
	engine->serial_wq = alloc_workqueue("%s_serial", WQ_MEM_RECLAIM | WQ_CPU_INTENSIVE | WQ_PERCPU | WQ_SYSFS, 1, name);
	CHECK(engine->parallel_wq && engine->serial_wq);
	CHECK(zalloc_cpumask_var(&engine->parallel, GFP_KERNEL) && alloc_cpumask_var(&engine->serial, GFP_KERNEL));
	INIT_LIST_HEAD(&engine->streams);
	mutex_init(&engine->lock);
	kobject_init(&engine->kobj, &engine_type);
	cpus_read_lock();
	cpumask_copy(engine->parallel, cpu_possible_mask);
	cpumask_copy(engine->serial, cpu_possible_mask);
	CHECK(!cpuhp_state_add_instance_nocalls_cpuslocked(hp_online, &engine->online));
	CHECK(!cpuhp_state_add_instance_nocalls_cpuslocked(CPUHP_PADATA_DEAD, &engine->dead));
	cpus_read_unlock();
	return engine;
}

static struct stream *stream_alloc(struct engine *engine)
{
	struct stream *stream = kzalloc(sizeof(*stream), GFP_KERNEL);

	CHECK(stream);
	stream->engine = engine;
	mutex_lock(&engine->lock);
	RCU_INIT_POINTER(stream->pd, alloc_data(engine));
	list_add(&stream->list, &engine->streams);
	mutex_unlock(&engine->lock);
	return stream;
}

static void stream_free(struct stream *stream)
{
	mutex_lock(&stream->engine->lock);
	list_del(&stream->list);
	mutex_unlock(&stream->engine->lock);
	free_data(rcu_dereference_protected(stream->pd, 1));
	kfree(stream);
}

/* ---- one job of many threads ---- */

struct shared_job {
	spinlock_t lock;
	unsigned long next, end, chunk;
	struct completion done;
	int working;
	void (*part)(unsigned long from, unsigned long to, void *arg);
	void *arg;
};

struct helper {
	struct work_struct work;
	struct shared_job *job;
};

static void help(struct work_struct *work)
{
	struct shared_job *job = container_of(work, struct helper, work)->job;
	bool last;

	spin_lock(&job->lock);
	while (job->next < job->end) {
		unsigned long from = job->next, to = min(from + job->chunk, job->end);

		job->next = to;
		spin_unlock(&job->lock);
		job->part(from, to, job->arg);
		cond_resched();
		spin_lock(&job->lock);
	}
	last = --job->working == 0;
	spin_unlock(&job->lock);
	if (last)
		complete(&job->done);
}

static void do_multithreaded(struct shared_job *job, unsigned int threads)
{
	struct helper own, *helpers = kcalloc(threads, sizeof(*helpers), GFP_KERNEL);
	unsigned int i;

	spin_lock_init(&job->lock);
	init_completion(&job->done);
	job->working = (int)threads + 1;
	job->chunk = max(DIV_ROUND_UP(job->end - job->next, threads * 8), 1ul);
	for (i = 0; i < threads; i++) {
		helpers[i].job = job;
		INIT_WORK(&helpers[i].work, help);
		queue_work_node(NUMA_NO_NODE, system_dfl_wq, &helpers[i].work);
	}
	own.job = job;
	INIT_WORK_ONSTACK(&own.work, help);
	help(&own.work);
	wait_for_completion(&job->done);
	for (i = 0; i < threads; i++)
		flush_work(&helpers[i].work);
	destroy_work_on_stack(&own.work);
	kfree(helpers);
}

#endif

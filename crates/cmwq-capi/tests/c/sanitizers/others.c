/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For race detectors: plain memory that is handed on by batches, completion queues, functions on CPUs, and grace periods. With -DRACE=N the
 * program leaves out, in one of them, what orders its accesses.
 */
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef RACE
#define RACE 0
#endif

#ifndef ROUNDS
#define ROUNDS 100
#endif
enum { ITEMS = 16 };

static void check(int holds, int line)
{
	if (!holds) {
		fprintf(stderr, "line %d\n", line);
		exit(1);
	}
}

struct job {
	struct cmwq_work work;
	long in, out;
};

static struct cmwq_workqueue *wq;
static struct cmwq_cq *cq;
static struct job jobs[ITEMS];
static long on_cpu, set_up, runs[CMWQ_MAX_CPUS];
static struct point {
	struct rcu_head rcu;
	long x, y;
} *shared;
static long nr_freed, nr_reading;

static void run(struct cmwq_work *work)
{
	struct job *job = CMWQ_CONTAINER_OF(work, struct job, work);

	job->out = job->in + 1;
}

static void run_and_post(struct cmwq_work *work)
{
	struct job *job = CMWQ_CONTAINER_OF(work, struct job, work);

	run(work);
	check(cmwq_cq_post(cq, (uint64_t)(job - jobs), job->in) == 0, __LINE__);
#if RACE == 2
	job->out = 0;
#endif
}

static int64_t run_for_entry(void *arg)
{
	struct job *job = (struct job *)arg;

	job->out = job->in + 3;
	return job->out;
}

static long run_on_cpu(void *arg)
{
	return ++on_cpu + *(long *)arg;
}

static void run_on_each(struct cmwq_work *work)
{
	(void)work;
	runs[cmwq_current_cpu()] += set_up;
}

#if RACE == 3
static void set_up_late(struct cmwq_work *work)
{
	(void)work;
	set_up = 1;
}
#endif

static void batches(int round)
{
	struct cmwq_work *works[ITEMS];
	int i, fates[ITEMS];

	for (i = 0; i < ITEMS; i++) {
		cmwq_init_work(&jobs[i].work, run);
		works[i] = &jobs[i].work;
		jobs[i].in = round + i;
	}
	check(cmwq_queue_work_batch(wq, works, ITEMS) == ITEMS, __LINE__);
#if RACE == 1
	jobs[ITEMS - 1].in = 0;
#endif
	for (i = 0; i < ITEMS; i++) {
		cmwq_flush_work(works[i]);
		check(jobs[i].out == round + i + 1 || RACE != 0, __LINE__);
	}
	for (i = 0; i < ITEMS; i++)
		jobs[i].in = jobs[i].out;
	check(cmwq_queue_work_batch_fates(wq, works, ITEMS, fates) == ITEMS, __LINE__);
	if (round % 3 == 0)
		cmwq_flush_workqueue(wq);
	else if (round % 3 == 1)
		check(cmwq_flush_workqueue_timeout_ns(wq, UINT64_MAX) == 0, __LINE__);
	else
		check(cmwq_drain_workqueue_timeout_ns(wq, UINT64_MAX) == 0, __LINE__);
	for (i = 0; i < ITEMS; i++)
		check(jobs[i].out == round + i + 2 || RACE != 0, __LINE__);
}

static void entries(int round)
{
	struct cmwq_cqe taken[ITEMS];
	int i, there = 0;

	for (i = 0; i < ITEMS; i++) {
		cmwq_init_work(&jobs[i].work, run_and_post);
		jobs[i].in = round - i;
		if (i % 2)
			check(cmwq_try_queue_work(wq, &jobs[i].work) == CMWQ_QUEUED_ACCEPTED, __LINE__);
		else
			check(cmwq_cq_execute(cq, wq, run_for_entry, &jobs[i], (uint64_t)i) == 0, __LINE__);
	}
	while (there < ITEMS) {
		size_t n = round % 2 ? cmwq_cq_wait(cq, taken, ITEMS) : cmwq_cq_wait_timeout_ns(cq, taken, ITEMS, 1000000000);

		while (n--) {
			struct job *job = &jobs[taken[n].token];

			check(job->out == job->in + (taken[n].token % 2 ? 1 : 3) || RACE != 0, __LINE__);
#if RACE == 2
			job->out = 0;
#endif
			there++;
		}
	}
	cmwq_flush_workqueue(wq);
}

static void freed(struct rcu_head *head)
{
	free(CMWQ_CONTAINER_OF(head, struct point, rcu));
	nr_freed++;
}

static void read_point(struct cmwq_work *work)
{
	struct point *point;

	(void)work;
	rcu_read_lock();
	point = rcu_dereference(shared);
	/* Orders nothing. */
	__atomic_fetch_add(&nr_reading, 1, __ATOMIC_RELAXED);
	check(!point || point->x == point->y, __LINE__);
	rcu_read_unlock();
#if RACE == 4
	/* After the section. */
	check(!point || point->x < ROUNDS, __LINE__);
#endif
}

static void points(int round)
{
	struct point *point = (struct point *)calloc(1, sizeof(*point)), *old = shared;
	long before = nr_reading;
	int i;

	for (i = 0; i < ITEMS; i++) {
		cmwq_init_work(&jobs[i].work, read_point);
		check(cmwq_queue_work(wq, &jobs[i].work), __LINE__);
	}
	/* One at least has the old one. */
	while (__atomic_load_n(&nr_reading, __ATOMIC_RELAXED) == before)
		sched_yield();
	point->x = point->y = round;
	rcu_assign_pointer(shared, point);
	if (old && round % 3 == 0) {
		synchronize_rcu();
		old->x = -1;
		old->y = -2;
		free(old);
	} else if (old && round % 3 == 1) {
		call_rcu(&old->rcu, freed);
	} else if (old) {
		kfree_rcu(old, rcu);
	}
	cmwq_flush_workqueue(wq);
}

int main(void)
{
	int round;

	wq = cmwq_alloc_workqueue("others", CMWQ_WQ_UNBOUND, 0);
	cq = cmwq_cq_create(0, 0);
	check(wq && cq, __LINE__);
	for (round = 0; round < ROUNDS; round++) {
		long more = round, before = on_cpu;

		batches(round);
		entries(round);
		points(round);
		check(cmwq_work_on_cpu(cmwq_current_cpu(), run_on_cpu, &more) == before + 1 + round, __LINE__);
		check(on_cpu == before + 1, __LINE__);
		set_up = round;
#if RACE == 3
		cmwq_init_work(&jobs[0].work, set_up_late);
		check(cmwq_queue_work(wq, &jobs[0].work), __LINE__);
#endif
		check(cmwq_schedule_on_each_cpu(run_on_each) == 0, __LINE__);
		set_up = runs[0];
		cmwq_flush_workqueue(wq);
	}
	call_rcu(&shared->rcu, freed);
	rcu_barrier();
	check(nr_freed == (ROUNDS + 1) / 3 + 1 || RACE != 0, __LINE__);
	cmwq_cq_destroy(cq);
	cmwq_init_work(&jobs[0].work, run);
	check(cmwq_queue_work(wq, &jobs[0].work), __LINE__);
	check(cmwq_destroy_workqueue_timeout_ns(wq, UINT64_MAX) == 0, __LINE__);
	jobs[0].out = 0;
	return 0;
}

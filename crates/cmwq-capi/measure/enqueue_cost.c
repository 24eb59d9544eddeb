/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What queue_work() costs a C program: the counterpart of enqueue_cost.rs. Items are queued in rounds while every worker is
 * busy, so that no thread is woken and none contends. Prints one number, ns an item: the median of the rounds.
 */
#include <linux/atomic.h>
#include <linux/kernel.h>
#include <linux/workqueue.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 1000, ROUNDS = 50 };

static bool stop;
static atomic_t spinning;
static struct work_struct items[ITEMS];
static double costs_ns[ROUNDS];

static void nothing(struct work_struct *work)
{
	(void)work;
}

/* Keeps a worker busy, awake on purpose. */
static void spin(struct work_struct *work)
{
	(void)work;
	atomic_inc(&spinning);
	while (!READ_ONCE(stop))
		cpu_relax();
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("enqueue_cost", WQ_UNBOUND, 0);
	unsigned int busy = num_online_cpus(), i;
	struct work_struct *spinners = (struct work_struct *)calloc(busy, sizeof(*spinners));
	int round;

	if (!wq || !spinners)
		return 1;
	for (i = 0; i < busy; i++)
		INIT_WORK(&spinners[i], spin);
	for (i = 0; i < ITEMS; i++)
		INIT_WORK(&items[i], nothing);
	for (round = 0; round < ROUNDS; round++) {
		uint64_t start;

		WRITE_ONCE(stop, false);
		atomic_set(&spinning, 0);
		for (i = 0; i < busy; i++)
			queue_work(wq, &spinners[i]);
		while ((unsigned int)atomic_read(&spinning) < busy)
			sched_yield();
		start = cmwq_now_ns();
		for (i = 0; i < ITEMS; i++)
			queue_work(wq, &items[i]);
		costs_ns[round] = (double)(cmwq_now_ns() - start) / (double)ITEMS;
		WRITE_ONCE(stop, true);
		flush_workqueue(wq);
	}
	qsort(costs_ns, ROUNDS, sizeof(costs_ns[0]), ascending);
	printf("%.1f\n", costs_ns[ROUNDS / 2]);
	destroy_workqueue(wq);
	free(spinners);
	return 0;
}

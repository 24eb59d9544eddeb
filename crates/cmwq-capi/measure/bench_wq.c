/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The published micro-benchmark's loop against the kernel-shaped header: for each affinity scope, one producer per online CPU, pinned
 * to it, queues its one item, waits until it has run, and repeats. Prints items a second and the cost of the queue call.
 *
 *     bench_wq [ITEMS_PER_THREAD] [THREADS]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/workqueue.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

struct producer {
	pthread_t thread;
	int cpu;
	struct work_struct work;
	struct completion done;
	unsigned long *latency_ns;
	atomic_long_t executed;
};

static struct workqueue_struct *bench_wq;
static struct completion start_gate;
static unsigned long items = 50000;

static void bench_work(struct work_struct *work)
{
	struct producer *p = container_of(work, struct producer, work);

	atomic_long_inc(&p->executed);
	complete(&p->done);
}

static void *produce(void *arg)
{
	struct producer *p = (struct producer *)arg;
	cpu_set_t cpus;
	unsigned long i;

	CPU_ZERO(&cpus);
	CPU_SET((size_t)p->cpu, &cpus);
	pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	wait_for_completion(&start_gate);
	for (i = 0; i < items; i++) {
		uint64_t t0, t1;

		reinit_completion(&p->done);
		INIT_WORK(&p->work, bench_work);
		t0 = cmwq_now_ns();
		queue_work(bench_wq, &p->work);
		t1 = cmwq_now_ns();
		p->latency_ns[i] = (unsigned long)(t1 - t0);
		wait_for_completion(&p->done);
	}
	return NULL;
}

static int ascending(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;

	return x < y ? -1 : x > y;
}

static int run(const char *scope, int threads)
{
	struct producer *producers = (struct producer *)calloc((size_t)threads, sizeof(*producers));
	unsigned long total = (unsigned long)threads * items, executed = 0;
	unsigned long *all = (unsigned long *)calloc(total, sizeof(*all));
	uint64_t start, elapsed_us;
	int cpu, t = 0;

	if (!producers || !all)
		return 1;
	init_completion(&start_gate);
	for_each_online_cpu(cpu) {
		struct producer *p = &producers[t];

		if (t == threads)
			break;
		p->cpu = cpu;
		p->latency_ns = &all[(unsigned long)t * items];
		init_completion(&p->done);
		if (pthread_create(&p->thread, NULL, produce, p))
			return 1;
		t++;
	}
	start = cmwq_now_ns();
	complete_all(&start_gate);
	for (t = 0; t < threads; t++)
		pthread_join(producers[t].thread, NULL);
	flush_workqueue(bench_wq);
	elapsed_us = (cmwq_now_ns() - start) / 1000;
	for (t = 0; t < threads; t++)
		executed += (unsigned long)atomic_long_read(&producers[t].executed);
	qsort(all, total, sizeof(*all), ascending);
	printf("%-11s %9llu items/sec  p50=%lu p90=%lu p95=%lu ns\n", scope,
	       elapsed_us ? (unsigned long long)(total * 1000000 / elapsed_us) : 0ull, all[total * 50 / 100],
	       all[total * 90 / 100], all[total * 95 / 100]);
	free(all);
	free(producers);
	return executed != total;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		enum wq_affn_scope scope;
	} scopes[] = {
		{"cpu", WQ_AFFN_CPU},     {"smt", WQ_AFFN_SMT},   {"cache_shard", WQ_AFFN_CACHE_SHARD},
		{"cache", WQ_AFFN_CACHE}, {"numa", WQ_AFFN_NUMA}, {"system", WQ_AFFN_SYSTEM},
	};
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	int threads = (int)num_online_cpus(), failed = 0;
	size_t i;

	if (argc > 1)
		items = strtoul(argv[1], NULL, 10);
	if (argc > 2 && atoi(argv[2]) > 0 && atoi(argv[2]) < threads)
		threads = atoi(argv[2]);
	bench_wq = alloc_workqueue("bench_wq", WQ_UNBOUND | WQ_SYSFS, 0);
	if (!bench_wq || !attrs || !items)
		return 1;
	for (i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
		attrs->affn_scope = scopes[i].scope;
		if (apply_workqueue_attrs(bench_wq, attrs))
			return 1;
		failed |= run(scopes[i].name, threads);
	}
	destroy_workqueue(bench_wq);
	free_workqueue_attrs(attrs);
	return failed;
}

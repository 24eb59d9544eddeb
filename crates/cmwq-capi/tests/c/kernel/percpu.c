/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Variables with a copy for each CPU, references that can be killed, sums that many threads add to.
 *
 * Seen to fail with: one copy for all CPUs; copies of zeros; a reference taken of a dead count; the reference of percpu_ref_kill() kept.
 */
#include <linux/percpu-refcount.h>
#include <linux/percpu.h>
#include <linux/percpu_counter.h>
#include <linux/workqueue.h>

#include "check.h"

enum { NR_ITEMS = 32, ROUNDS = 2000 };

struct stats {
	long hits;
	int step;
};

static DEFINE_PER_CPU(struct stats, stats) = {0, 3};
static DEFINE_PER_CPU(long, plain);
static DEFINE_PER_CPU_ALIGNED(char, aligned) = 'a';
/* As code does that has an item for each CPU. */
static DEFINE_PER_CPU(struct work_struct, items);
static DEFINE_PER_CPU(struct delayed_work, later);

static struct workqueue_struct *wq;
static struct work_struct work[NR_ITEMS];
static struct percpu_counter sum;
static struct percpu_ref ref;
static long nr_inside, nr_runs, nr_confirmed, nr_released, nr_refused;

static void count(struct work_struct *unused)
{
	int i;

	(void)unused;
	for (i = 0; i < ROUNDS; i++) {
		this_cpu_add(stats.hits, this_cpu_read(stats.step));
		this_cpu_inc(plain);
		percpu_counter_add(&sum, i % 2 ? 3 : -1);
	}
}

static void on_its_cpu(struct work_struct *item)
{
	int cpu;

	for_each_online_cpu(cpu)
		if (item == &per_cpu(items, cpu) || to_delayed_work(item) == per_cpu_ptr(&later, cpu))
			__atomic_fetch_add(&nr_runs, 1, __ATOMIC_SEQ_CST);
}

static void run_all(work_func_t func)
{
	int i;

	for (i = 0; i < NR_ITEMS; i++) {
		INIT_WORK(&work[i], func);
		CHECK(queue_work(wq, &work[i]));
	}
	flush_workqueue(wq);
}

static void variables(void)
{
	long hits = 0, plains = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		CHECK(per_cpu(stats, cpu).step == 3 && per_cpu(stats, cpu).hits == 0 && per_cpu(aligned, cpu) == 'a');
		CHECK((uintptr_t)per_cpu_ptr(&aligned, cpu) % 64 == 0);
		CHECK(cpu == 0 || per_cpu_ptr(&plain, cpu) != per_cpu_ptr(&plain, 0));
		/* Each has its own. */
		per_cpu(plain, cpu) = cpu;
	}
	for_each_possible_cpu(cpu) {
		CHECK(per_cpu(plain, cpu) == cpu);
		per_cpu(plain, cpu) = 0;
	}
	get_cpu_var(plain) = 1;
	put_cpu_var(plain);
	CHECK(percpu_counter_init(&sum, 5, GFP_KERNEL) == 0);
	run_all(count);
	for_each_possible_cpu(cpu) {
		hits += per_cpu(stats, cpu).hits;
		plains += per_cpu(plain, cpu);
	}
	CHECK(hits == 3L * NR_ITEMS * ROUNDS && plains == NR_ITEMS * ROUNDS + 1);
	CHECK(percpu_counter_sum(&sum) == 5 + NR_ITEMS * ROUNDS && percpu_counter_compare(&sum, 6) == 1);
	percpu_counter_set(&sum, -2);
	CHECK(percpu_counter_read(&sum) == -2 && percpu_counter_read_positive(&sum) == 0);
	percpu_counter_destroy(&sum);

	for_each_online_cpu(cpu) {
		INIT_WORK(&per_cpu(items, cpu), on_its_cpu);
		INIT_DELAYED_WORK(per_cpu_ptr(&later, cpu), on_its_cpu);
		CHECK(schedule_work_on(cpu, &per_cpu(items, cpu)));
		CHECK(schedule_delayed_work_on(cpu, &per_cpu(later, cpu), 1));
	}
	for_each_online_cpu(cpu) {
		flush_work(&per_cpu(items, cpu));
		flush_delayed_work(&per_cpu(later, cpu));
	}
	CHECK(nr_runs == 2 * (long)num_online_cpus());
}

static void released(struct percpu_ref *which)
{
	CHECK(which == &ref && percpu_ref_is_zero(&ref) && __atomic_load_n(&nr_inside, __ATOMIC_SEQ_CST) == 0);
	nr_released++;
}

static void confirmed(struct percpu_ref *which)
{
	CHECK(which == &ref && !percpu_ref_tryget_live(&ref) && percpu_ref_is_dying(&ref));
	nr_confirmed++;
}

static void enter(struct work_struct *unused)
{
	(void)unused;
	while (percpu_ref_tryget_live(&ref)) {
		__atomic_fetch_add(&nr_inside, 1, __ATOMIC_SEQ_CST);
		CHECK(percpu_ref_tryget(&ref));
		percpu_ref_put(&ref);
		__atomic_fetch_sub(&nr_inside, 1, __ATOMIC_SEQ_CST);
		percpu_ref_put(&ref);
	}
	__atomic_fetch_add(&nr_refused, 1, __ATOMIC_SEQ_CST);
}

static void references(void)
{
	int i, round;

	CHECK(percpu_ref_init(&ref, released, PERCPU_REF_ALLOW_REINIT, GFP_KERNEL) == 0);
	for (round = 1; round <= 20; round++) {
		for (i = 0; i < 4; i++) {
			INIT_WORK(&work[i], enter);
			queue_work(wq, &work[i]);
		}
		CHECK(!percpu_ref_is_zero(&ref));
		percpu_ref_kill_and_confirm(&ref, confirmed);
		flush_workqueue(wq);
		CHECK(nr_released == round && nr_confirmed == round && nr_refused == 4 * round);
		CHECK(!percpu_ref_tryget(&ref) && percpu_ref_is_zero(&ref));
		percpu_ref_reinit(&ref);
		CHECK(!percpu_ref_is_dying(&ref));
	}
	percpu_ref_get_many(&ref, 2);
	percpu_ref_kill(&ref);
	CHECK(percpu_ref_tryget(&ref) && !percpu_ref_tryget_live(&ref));
	percpu_ref_put_many(&ref, 2);
	CHECK(nr_released == 20);
	percpu_ref_resurrect(&ref);
	CHECK(percpu_ref_tryget_live(&ref));
	percpu_ref_put_many(&ref, 2);
	percpu_ref_kill(&ref);
	CHECK(nr_released == 21);
	percpu_ref_exit(&ref);
	CHECK(percpu_ref_init(&ref, released, PERCPU_REF_INIT_DEAD, GFP_KERNEL) == 0);
	CHECK(percpu_ref_is_zero(&ref) && !percpu_ref_tryget(&ref));
}

int main(void)
{
	wq = alloc_workqueue("percpu", WQ_UNBOUND, 0);
	CHECK(wq);
	variables();
	references();
	destroy_workqueue(wq);
	return 0;
}

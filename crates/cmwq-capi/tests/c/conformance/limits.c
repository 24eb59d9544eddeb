/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* How many run at a time, and in which order. */
#include "harness.h"

enum { ITEMS = 200 };

static atomic_int running, most;
static int order[ITEMS];
static atomic_int ran;

struct numbered {
	struct work_struct work;
	int number;
};

static struct numbered items[ITEMS];

static void run_numbered(struct work_struct *work)
{
	int now = atomic_fetch_add(&running, 1) + 1, before = most;

	while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
		;
	order[atomic_fetch_add(&ran, 1)] = container_of(work, struct numbered, work)->number;
	if (ran % 8 == 0)
		sleep_ms(1);
	atomic_fetch_sub(&running, 1);
}

static void prepare(void)
{
	int i;

	running = most = ran = 0;
	for (i = 0; i < ITEMS; i++) {
		items[i].number = i;
		INIT_WORK(&items[i].work, run_numbered);
	}
}

static void assert_in_order(void)
{
	int i;

	assert_int_equal(ran, ITEMS);
	for (i = 0; i < ITEMS; i++)
		assert_int_equal(order[i], i);
}

static void one_per_cpu_means_one_on_each_cpu(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_PERCPU, 1);
	int i;

	(void)state;
	prepare();
	for (i = 0; i < ITEMS; i++)
		queue_work_on(0, wq, &items[i].work);
	destroy_workqueue(wq);
	assert_int_equal(most, 1);
	assert_in_order();
}

static void what_waits_is_never_overtaken(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_PERCPU, 1);
	struct probe first;
	int i;

	(void)state;
	prepare();
	probe_init(&first);
	atomic_store(&first.hold, true);
	queue_work_on(0, wq, &first.work);
	for (i = 0; i < ITEMS / 2; i++)
		queue_work_on(0, wq, &items[i].work);
	assert_true(workqueue_congested(0, wq));
	probe_let_go(&first);
	workqueue_set_max_active(wq, 2);
	workqueue_set_max_active(wq, 1);
	for (; i < ITEMS; i++)
		queue_work_on(0, wq, &items[i].work);
	destroy_workqueue(wq);
	assert_int_equal(ran, ITEMS);
}

static void an_ordered_queue_keeps_its_order_while_it_is_changed(void **state)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("ordered-%d", WQ_FREEZABLE, 7);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	int i;

	(void)state;
	prepare();
	for (i = 0; i < ITEMS; i++) {
		queue_work(wq, &items[i].work);
		if (i % 4 == 0) {
			attrs->affn_strict = i % 8 == 0;
			cpumask_setall(attrs->cpumask);
			if (i % 12 == 0 && num_online_cpus() > 1)
				cpumask_clear_cpu(cpumask_first(cpu_online_mask), attrs->cpumask);
			assert_int_equal(apply_workqueue_attrs(wq, attrs), 0);
		}
	}
	destroy_workqueue(wq);
	free_workqueue_attrs(attrs);
	assert_int_equal(most, 1);
	assert_in_order();
}

static void a_bh_queue_runs_one_at_a_time_in_order(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_BH | WQ_PERCPU, 0);
	int i;

	(void)state;
	prepare();
	for (i = 0; i < ITEMS; i++)
		queue_work_on(0, wq, &items[i].work);
	destroy_workqueue(wq);
	assert_int_equal(most, 1);
	assert_in_order();
}

static void a_burst_is_run_whole(void **state)
{
	enum { BURST = 1000 };
	static struct probe burst[BURST];
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	int i;

	(void)state;
	for (i = 0; i < BURST; i++)
		probe_init(&burst[i]);
	for (i = 0; i < BURST; i++)
		assert_true(queue_work(wq, &burst[i].work));
	flush_workqueue(wq);
	for (i = 0; i < BURST; i++)
		assert_int_equal(burst[i].runs, 1);
	destroy_workqueue(wq);
}

static struct completion gate;
static atomic_bool went_on;

static void wait_at_gate(struct work_struct *work)
{
	(void)work;
	wait_for_completion(&gate);
}

static void go_on(struct work_struct *work)
{
	(void)work;
	went_on = true;
	complete(&gate);
}

static void block_for(void *arg)
{
	while (!went_on)
		sleep_ms(*(long *)arg);
}

static void block(struct work_struct *work)
{
	long ms = 1;

	(void)work;
	cmwq_blocking(block_for, &ms);
}

static void while_one_blocks_another_runs(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_PERCPU, 0);
	struct work_struct first, second;
	work_func_t waits[] = {wait_at_gate, block};
	size_t i;

	(void)state;
	/* On one CPU: the second is what lets the first go on. */
	for (i = 0; i < ARRAY_SIZE(waits); i++) {
		init_completion(&gate);
		went_on = false;
		INIT_WORK(&first, waits[i]);
		INIT_WORK(&second, go_on);
		queue_work_on(0, wq, &first);
		queue_work_on(0, wq, &second);
		assert_true(becomes(went_on));
		flush_work(&first);
		flush_work(&second);
	}
	destroy_workqueue(wq);
}

static atomic_bool burn_ends;

static void burn(struct work_struct *work)
{
	uint64_t until = cmwq_now_ns() + SOON_MS * 1000000ull;

	(void)work;
	while (!burn_ends && cmwq_now_ns() < until)
		;
}

static void what_computes_for_long_holds_nobody_up(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_PERCPU, 0);
	struct work_struct hog;
	struct probe next;

	(void)state;
	burn_ends = false;
	INIT_WORK(&hog, burn);
	probe_init(&next);
	queue_work_on(0, wq, &hog);
	assert_true(becomes(work_busy(&hog) == WORK_BUSY_RUNNING));
	queue_work_on(0, wq, &next.work);
	assert_true(becomes(next.runs == 1));
	assert_int_equal(work_busy(&hog), WORK_BUSY_RUNNING);
	burn_ends = true;
	destroy_workqueue(wq);
}

static void items_that_wait_for_each_other_get_on(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 16);
	struct work_struct waiting[7], last;
	size_t i;

	(void)state;
	/* Eight of them: min_active. */
	init_completion(&gate);
	went_on = false;
	for (i = 0; i < ARRAY_SIZE(waiting); i++) {
		INIT_WORK(&waiting[i], wait_at_gate);
		queue_work(wq, &waiting[i]);
	}
	INIT_WORK(&last, go_on);
	queue_work(wq, &last);
	assert_true(becomes(went_on));
	complete_all(&gate);
	destroy_workqueue(wq);
}

int limit_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_per_cpu_means_one_on_each_cpu),
		cmocka_unit_test(what_waits_is_never_overtaken),
		cmocka_unit_test(an_ordered_queue_keeps_its_order_while_it_is_changed),
		cmocka_unit_test(a_bh_queue_runs_one_at_a_time_in_order),
		cmocka_unit_test(a_burst_is_run_whole),
		cmocka_unit_test(while_one_blocks_another_runs),
		cmocka_unit_test(what_computes_for_long_holds_nobody_up),
		cmocka_unit_test(items_that_wait_for_each_other_get_on),
	};

	return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One item: pending, running, cancelled, disabled, flushed, freed. */
#include "harness.h"

static void queueing_many_times_runs_once_more(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct probe probe;
	int i, accepted = 0;

	(void)state;
	probe_init(&probe);
	probe_hold(&probe, wq);
	for (i = 0; i < 10; i++)
		accepted += queue_work(wq, &probe.work);
	assert_int_equal(accepted, 1);
	assert_int_equal(work_busy(&probe.work), WORK_BUSY_PENDING | WORK_BUSY_RUNNING);
	probe_let_go(&probe);
	flush_workqueue(wq);
	assert_int_equal(probe.runs, 2);
	assert_int_equal(probe.most, 1);
	assert_false(work_pending(&probe.work));
	assert_int_equal(work_busy(&probe.work), 0);
	destroy_workqueue(wq);
}

struct flagged {
	struct work_struct work;
	atomic_ulong raised, seen;
};

static void see(struct work_struct *work)
{
	struct flagged *flagged = container_of(work, struct flagged, work);

	/* Relaxed: queueing must order it. */
	atomic_store_explicit(&flagged->seen, atomic_load_explicit(&flagged->raised, memory_order_relaxed), memory_order_relaxed);
}

static void a_flag_set_before_queueing_is_seen_though_pending(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct flagged flagged = {0};
	unsigned long i;

	(void)state;
	INIT_WORK(&flagged.work, see);
	for (i = 1; i <= 20000; i++) {
		atomic_store_explicit(&flagged.raised, i, memory_order_relaxed);
		queue_work(wq, &flagged.work);
		if (i % 64 == 0) {
			flush_work(&flagged.work);
			assert_int_equal(flagged.seen, i);
		}
	}
	destroy_workqueue(wq);
}

static void runs_of_one_queue_do_not_overlap_but_of_two_do(void **state)
{
	struct workqueue_struct *a = new_wq(WQ_UNBOUND, 0), *b = new_wq(WQ_UNBOUND | WQ_HIGHPRI, 0);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct probe probe;
	int scope;

	(void)state;
	probe_init(&probe);
	probe_hold(&probe, a);
	for (scope = WQ_AFFN_CPU; scope < WQ_AFFN_NR_TYPES; scope++) {
		attrs->affn_scope = (enum wq_affn_scope)scope;
		assert_int_equal(apply_workqueue_attrs(a, attrs), 0);
		queue_work(a, &probe.work);
	}
	sleep_ms(20);
	assert_int_equal(probe.running, 1);
	probe_let_go(&probe);
	flush_workqueue(a);
	assert_int_equal(probe.most, 1);
	assert_int_equal(probe.runs, 2);
	/* Another queue, of another pool: both run. */
	probe_hold(&probe, a);
	assert_true(queue_work(b, &probe.work));
	assert_true(becomes(probe.running == 2));
	probe_let_go(&probe);
	destroy_workqueue(a);
	destroy_workqueue(b);
	free_workqueue_attrs(attrs);
}

struct one_shot {
	struct work_struct work;
	atomic_int *count;
};

static void free_itself(struct work_struct *work)
{
	struct one_shot *shot = container_of(work, struct one_shot, work);
	atomic_int *count = shot->count;

	free(shot);
	atomic_fetch_add(count, 1);
}

static void a_function_may_free_its_item(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	atomic_int count = 0;
	int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		struct one_shot *shot = malloc(sizeof(*shot));

		assert_non_null(shot);
		shot->count = &count;
		INIT_WORK(&shot->work, free_itself);
		assert_true(queue_work(wq, &shot->work));
	}
	destroy_workqueue(wq);
	assert_int_equal(count, 1000);
}

static struct work_struct *reused;
static atomic_bool first_holds, second_ran;

static void first_use(struct work_struct *work)
{
	(void)work;
	while (first_holds)
		sleep_ms(1);
}

static void second_use(struct work_struct *work)
{
	(void)work;
	second_ran = true;
}

static void an_address_used_again_by_another_function_waits_for_nobody(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct work_struct memory;

	(void)state;
	reused = &memory;
	first_holds = true;
	second_ran = false;
	INIT_WORK(reused, first_use);
	queue_work(wq, reused);
	assert_true(becomes(work_busy(reused) == WORK_BUSY_RUNNING));
	/* As if freed by first_use and allocated anew. */
	INIT_WORK(reused, second_use);
	assert_true(queue_work(wq, reused));
	assert_true(becomes(second_ran));
	first_holds = false;
	destroy_workqueue(wq);
}

static struct work_struct zeroed, declared_too;
static atomic_int static_runs;

static void static_run(struct work_struct *work)
{
	(void)work;
	static_runs++;
}

static DECLARE_WORK(declared, static_run);

static void items_of_zeros_and_declared_ones_work(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);

	(void)state;
	static_runs = 0;
	zeroed.func = static_run;
	assert_true(queue_work(wq, &zeroed));
	assert_true(queue_work(wq, &declared));
	/* Cancelling one that was not initialised is harmless. */
	assert_false(cancel_work_sync(&declared_too));
	destroy_workqueue(wq);
	assert_int_equal(static_runs, 2);
}

struct again {
	struct work_struct work;
	struct workqueue_struct *wq;
	atomic_ulong runs;
};

static void queue_again(struct work_struct *work)
{
	struct again *again = container_of(work, struct again, work);

	again->runs++;
	queue_work(again->wq, work);
}

static void cancel_sync_stops_an_item_that_queues_itself(void **state)
{
	struct again again = {.wq = new_wq(WQ_UNBOUND, 0)};
	unsigned long runs;

	(void)state;
	INIT_WORK(&again.work, queue_again);
	queue_work(again.wq, &again.work);
	assert_true(becomes(again.runs > 10));
	cancel_work_sync(&again.work);
	runs = again.runs;
	assert_int_equal(work_busy(&again.work), 0);
	sleep_ms(5);
	assert_int_equal(again.runs, runs);
	/* Idle: nothing to remove, though it had run. */
	assert_false(cancel_work_sync(&again.work));
	destroy_workqueue(again.wq);
}

static void cancel_tells_whether_it_removed_an_instance(void **state)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("cancel", 0);
	struct probe first, second;

	(void)state;
	probe_init(&first);
	probe_init(&second);
	probe_hold(&first, wq);
	assert_false(cancel_work(&first.work));
	queue_work(wq, &second.work);
	assert_true(work_pending(&second.work));
	assert_true(cancel_work(&second.work));
	assert_false(cancel_work(&second.work));
	/* Pending behind its own run: the pending one goes. */
	assert_true(queue_work(wq, &first.work));
	assert_true(cancel_work(&first.work));
	probe_let_go(&first);
	destroy_workqueue(wq);
	assert_int_equal(first.runs, 1);
	assert_int_equal(second.runs, 0);
}

static void disables_add_up_and_requests_in_between_are_lost(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct probe probe;

	(void)state;
	probe_init(&probe);
	assert_false(disable_work(&probe.work));
	assert_false(disable_work_sync(&probe.work));
	assert_false(queue_work(wq, &probe.work));
	assert_false(enable_work(&probe.work));
	assert_false(queue_work(wq, &probe.work));
	assert_true(enable_work(&probe.work));
	flush_workqueue(wq);
	assert_int_equal(probe.runs, 0);
	assert_true(queue_work(wq, &probe.work));
	flush_workqueue(wq);
	assert_int_equal(probe.runs, 1);
	/* Enabled and queued in one. */
	disable_work(&probe.work);
	disable_work(&probe.work);
	assert_false(enable_and_queue_work(wq, &probe.work));
	assert_true(enable_and_queue_work(wq, &probe.work));
	destroy_workqueue(wq);
	assert_int_equal(probe.runs, 2);
}

static void enabling_what_is_not_disabled_removes_it_and_warns(void **state)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("enable", 0);
	struct probe first, second;

	(void)state;
	warnings_reset();
	probe_init(&first);
	probe_init(&second);
	probe_hold(&first, wq);
	queue_work(wq, &second.work);
	assert_true(enable_work(&second.work));
	assert_false(work_pending(&second.work));
	probe_let_go(&first);
	destroy_workqueue(wq);
	assert_int_equal(second.runs, 0);
	assert_int_equal(warnings("enabled"), 1);
}

static long let_go_after_ms;

static void *let_go_later(void *arg)
{
	sleep_ms(let_go_after_ms);
	probe_let_go(arg);
	return NULL;
}

static void flush_waits_for_the_pending_instance(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct probe probe;
	pthread_t thread;
	bool waited = false;

	(void)state;
	/* On a busy machine both have run before the flush begins: once more, with more time. */
	for (let_go_after_ms = 30; !waited; let_go_after_ms *= 4) {
		assert_true(let_go_after_ms <= SOON_MS);
		probe_init(&probe);
		assert_false(flush_work(&probe.work));
		probe_hold(&probe, wq);
		assert_true(queue_work(wq, &probe.work));
		assert_int_equal(pthread_create(&thread, NULL, let_go_later, &probe), 0);
		waited = flush_work(&probe.work);
		assert_int_equal(probe.runs, 2);
		assert_int_equal(probe.running, 0);
		pthread_join(thread, NULL);
		assert_false(flush_work(&probe.work));
	}
	destroy_workqueue(wq);
}

static void on_stack(struct work_struct *work)
{
	(void)work;
	sleep_ms(1);
}

static void an_item_on_the_stack_is_flushed_before_it_goes(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	int i;

	(void)state;
	for (i = 0; i < 50; i++) {
		struct work_struct work;

		INIT_WORK_ONSTACK(&work, on_stack);
		queue_work(wq, &work);
		flush_work(&work);
		destroy_work_on_stack(&work);
		memset(&work, 0xa5, sizeof(work));
	}
	destroy_workqueue(wq);
}

static struct work_struct *seen_as_current;

static void look_at_current(struct work_struct *work)
{
	(void)work;
	seen_as_current = current_work();
}

static void an_item_sees_itself_as_current(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct work_struct work;

	(void)state;
	assert_null(current_work());
	INIT_WORK(&work, look_at_current);
	queue_work(wq, &work);
	flush_work(&work);
	assert_ptr_equal(seen_as_current, &work);
	assert_false(current_is_workqueue_rescuer());
	destroy_workqueue(wq);
}

int items_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queueing_many_times_runs_once_more),
		cmocka_unit_test(a_flag_set_before_queueing_is_seen_though_pending),
		cmocka_unit_test(runs_of_one_queue_do_not_overlap_but_of_two_do),
		cmocka_unit_test(a_function_may_free_its_item),
		cmocka_unit_test(an_address_used_again_by_another_function_waits_for_nobody),
		cmocka_unit_test(items_of_zeros_and_declared_ones_work),
		cmocka_unit_test(cancel_sync_stops_an_item_that_queues_itself),
		cmocka_unit_test(cancel_tells_whether_it_removed_an_instance),
		cmocka_unit_test(disables_add_up_and_requests_in_between_are_lost),
		cmocka_unit_test(enabling_what_is_not_disabled_removes_it_and_warns),
		cmocka_unit_test(flush_waits_for_the_pending_instance),
		cmocka_unit_test(an_item_on_the_stack_is_flushed_before_it_goes),
		cmocka_unit_test(an_item_sees_itself_as_current),
	};

	return cmocka_run_group_tests_name("items", tests, NULL, NULL);
}

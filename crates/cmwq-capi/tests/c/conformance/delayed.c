/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Items with a timer. */
#include "harness.h"

struct timed {
	struct delayed_work dwork;
	atomic_int runs;
	_Atomic uint64_t ran_at;
	atomic_bool hold, running;
};

static void timed_run(struct work_struct *work)
{
	struct timed *timed = container_of(to_delayed_work(work), struct timed, dwork);

	timed->ran_at = cmwq_now_ns();
	timed->running = true;
	timed->runs++;
	while (timed->hold)
		sleep_ms(1);
	timed->running = false;
}

static void timed_init(struct timed *timed)
{
	memset(timed, 0, sizeof(*timed));
	INIT_DELAYED_WORK(&timed->dwork, timed_run);
}

static void a_delay_is_never_shorter(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct timed timed;
	unsigned int ms;

	(void)state;
	for (ms = 1; ms < 40; ms += 7) {
		uint64_t start = cmwq_now_ns();

		timed_init(&timed);
		assert_true(queue_delayed_work(wq, &timed.dwork, msecs_to_jiffies(ms)));
		assert_true(becomes(timed.runs == 1));
		assert_true(timed.ran_at - start >= ms * 1000000ull);
		flush_workqueue(wq);
	}
	/* Pending until then. */
	assert_true(queue_delayed_work(wq, &timed.dwork, 3600 * HZ));
	assert_true(delayed_work_pending(&timed.dwork));
	assert_false(queue_delayed_work(wq, &timed.dwork, 0));
	assert_true(cancel_delayed_work(&timed.dwork));
	assert_int_equal(timed.runs, 1);
	destroy_workqueue(wq);
}

static void no_delay_is_no_timer(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct timed timed;

	(void)state;
	timed_init(&timed);
	assert_true(queue_delayed_work(wq, &timed.dwork, 0));
	/* Seen by the flush of the workqueue: it is queued, not on a timer. */
	flush_workqueue(wq);
	assert_int_equal(timed.runs, 1);
	destroy_workqueue(wq);
}

static void mod_tells_whether_it_was_pending(void **state)
{
	struct workqueue_struct *wq = alloc_ordered_workqueue("mod", 0);
	struct timed timed;
	struct probe before;

	(void)state;
	timed_init(&timed);
	probe_init(&before);
	/* Idle, then on the timer. */
	assert_false(mod_delayed_work(wq, &timed.dwork, 3600 * HZ));
	assert_true(mod_delayed_work(wq, &timed.dwork, 7200 * HZ));
	/* To a queue that is busy; then it is queued. */
	probe_hold(&before, wq);
	assert_true(mod_delayed_work(wq, &timed.dwork, 0));
	assert_true(mod_delayed_work(wq, &timed.dwork, 0));
	timed.hold = true;
	probe_let_go(&before);
	assert_true(becomes(timed.running));
	/* Running counts as idle: one more run. */
	assert_false(mod_delayed_work(wq, &timed.dwork, 1));
	timed.hold = false;
	assert_true(becomes(timed.runs == 2));
	/* Disabled: left alone. */
	assert_false(disable_delayed_work_sync(&timed.dwork));
	assert_false(mod_delayed_work(wq, &timed.dwork, 0));
	assert_true(enable_delayed_work(&timed.dwork));
	flush_workqueue(wq);
	assert_int_equal(timed.runs, 2);
	destroy_workqueue(wq);
}

static void a_timer_can_be_cancelled_and_disabled(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct timed timed;

	(void)state;
	timed_init(&timed);
	assert_false(cancel_delayed_work(&timed.dwork));
	queue_delayed_work(wq, &timed.dwork, 3600 * HZ);
	assert_true(cancel_delayed_work(&timed.dwork));
	queue_delayed_work(wq, &timed.dwork, 3600 * HZ);
	assert_true(cancel_delayed_work_sync(&timed.dwork));
	queue_delayed_work(wq, &timed.dwork, 3600 * HZ);
	assert_true(disable_delayed_work(&timed.dwork));
	assert_false(queue_delayed_work(wq, &timed.dwork, 0));
	assert_true(enable_delayed_work(&timed.dwork));
	/* Not disabled: a mistake that removes it, from the timer too, without waiting for that. */
	queue_delayed_work(wq, &timed.dwork, 3600 * HZ);
	assert_true(enable_delayed_work(&timed.dwork));
	assert_false(delayed_work_pending(&timed.dwork));
	destroy_workqueue(wq);
	assert_int_equal(timed.runs, 0);
}

static void flush_runs_it_at_once(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct timed timed;

	(void)state;
	timed_init(&timed);
	assert_false(flush_delayed_work(&timed.dwork));
	queue_delayed_work(wq, &timed.dwork, 3600 * HZ);
	/* false if it has run before the wait begins. */
	flush_delayed_work(&timed.dwork);
	assert_int_equal(timed.runs, 1);
	assert_false(delayed_work_pending(&timed.dwork));
	destroy_workqueue(wq);
}

static void a_timer_is_not_seen_by_the_queue(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct timed timed;
	unsigned int ms = 50;

	(void)state;
	warnings_reset();
	timed_init(&timed);
	queue_delayed_work(wq, &timed.dwork, 3600 * HZ);
	flush_workqueue(wq);
	drain_workqueue(wq);
	assert_true(delayed_work_pending(&timed.dwork));
	mod_delayed_work(wq, &timed.dwork, msecs_to_jiffies(ms));
	destroy_workqueue(wq);
	/* It has fired before that on a busy machine: once more, with more time. */
	while (timed.runs) {
		ms *= 4;
		assert_true(ms <= SOON_MS);
		timed.runs = 0;
		wq = new_wq(WQ_UNBOUND, 0);
		queue_delayed_work(wq, &timed.dwork, msecs_to_jiffies(ms));
		destroy_workqueue(wq);
	}
	/* Fires after the queue is gone: detected, dropped, the item is idle. */
	assert_true(becomes(!delayed_work_pending(&timed.dwork)));
	assert_int_equal(timed.runs, 0);
	assert_true(becomes(warnings("dropped") == 1));
}

static struct timed churned;
static struct workqueue_struct *churn_wq;
static atomic_bool churn_ends;

static void *churn(void *arg)
{
	unsigned int seed = *(unsigned int *)arg;

	while (!churn_ends) {
		switch (rand_r(&seed) % 6) {
		case 0:
			queue_delayed_work(churn_wq, &churned.dwork, (unsigned long)rand_r(&seed) % 3);
			break;
		case 1:
			mod_delayed_work(churn_wq, &churned.dwork, (unsigned long)rand_r(&seed) % 3);
			break;
		case 2:
			cancel_delayed_work(&churned.dwork);
			break;
		case 3:
			cancel_delayed_work_sync(&churned.dwork);
			break;
		case 4:
			flush_delayed_work(&churned.dwork);
			break;
		default:
			disable_delayed_work(&churned.dwork);
			enable_delayed_work(&churned.dwork);
		}
	}
	return NULL;
}

static void many_threads_may_move_one_item(void **state)
{
	unsigned int seeds[] = {1, 2, 3};
	pthread_t threads[3];
	int i;

	(void)state;
	churn_wq = new_wq(WQ_UNBOUND, 0);
	timed_init(&churned);
	for (i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
	sleep_ms(300);
	churn_ends = true;
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	cancel_delayed_work_sync(&churned.dwork);
	assert_int_equal(work_busy(&churned.dwork.work), 0);
	destroy_workqueue(churn_wq);
}

static void jiffies_are_milliseconds(void **state)
{
	unsigned long start = jiffies;

	(void)state;
	assert_int_equal(msecs_to_jiffies(1500), 1500 * HZ / 1000);
	assert_int_equal(usecs_to_jiffies(1), 1);
	assert_int_equal(usecs_to_jiffies(2001), 3);
	assert_int_equal(jiffies_to_msecs(7), 7);
	assert_true(time_after(start + 1, start) && time_before(start, start + 1) && time_after_eq(start, start));
	assert_true(time_after(1ul, ~0ul));
	sleep_ms(3);
	assert_true(jiffies - start >= 2);
}

int delayed_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_delay_is_never_shorter),
		cmocka_unit_test(no_delay_is_no_timer),
		cmocka_unit_test(mod_tells_whether_it_was_pending),
		cmocka_unit_test(a_timer_can_be_cancelled_and_disabled),
		cmocka_unit_test(flush_runs_it_at_once),
		cmocka_unit_test(a_timer_is_not_seen_by_the_queue),
		cmocka_unit_test(many_threads_may_move_one_item),
		cmocka_unit_test(jiffies_are_milliseconds),
	};

	return cmocka_run_group_tests_name("delayed", tests, NULL, NULL);
}

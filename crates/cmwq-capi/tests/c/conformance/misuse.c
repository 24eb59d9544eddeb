/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Wrong use: an error, said once, and nothing worse. */
#include "harness.h"

static struct cmwq_workqueue *none(uintptr_t bits)
{
	return (struct cmwq_workqueue *)bits;
}

/* All functions that take a workqueue. */
static void assert_refused(struct cmwq_workqueue *wq, int error)
{
	struct cmwq_work work = CMWQ_WORK_INIT((cmwq_work_fn)(void (*)(void))probe_run);
	struct cmwq_delayed_work dwork = CMWQ_DELAYED_WORK_INIT((cmwq_work_fn)(void (*)(void))probe_run);
	struct cmwq_workqueue_attrs *attrs = cmwq_alloc_workqueue_attrs();
	int round;

	for (round = 0; round < 2; round++) {
		errno = 0;
		assert_false(cmwq_queue_work(wq, &work));
		assert_int_equal(errno, error);
		errno = 0;
		assert_false(cmwq_queue_work_on(0, wq, &work));
		assert_int_equal(errno, error);
		errno = 0;
		assert_false(cmwq_queue_work_node(0, wq, &work));
		assert_int_equal(errno, error);
		errno = 0;
		assert_false(cmwq_queue_delayed_work_ns(wq, &dwork, 1));
		assert_int_equal(errno, error);
		errno = 0;
		assert_false(cmwq_queue_delayed_work_on_ns(0, wq, &dwork, 0));
		assert_int_equal(errno, error);
		errno = 0;
		assert_false(cmwq_mod_delayed_work_ns(wq, &dwork, 1));
		assert_int_equal(errno, error);
		errno = 0;
		assert_false(cmwq_enable_and_queue_work(wq, &work));
		assert_int_equal(errno, error);
		errno = 0;
		assert_false(cmwq_workqueue_congested(0, wq));
		assert_int_equal(errno, error);
		assert_int_equal(cmwq_flush_workqueue(wq), -error);
		assert_int_equal(cmwq_drain_workqueue(wq), -error);
		assert_int_equal(cmwq_workqueue_set_max_active(wq, 3), -error);
		assert_int_equal(cmwq_workqueue_set_min_active(wq, 3), -error);
		assert_int_equal(cmwq_apply_workqueue_attrs(wq, attrs), -error);
		assert_int_equal(cmwq_get_workqueue_attrs(wq, attrs), -error);
		assert_int_equal(cmwq_destroy_workqueue(wq), -error);
	}
	assert_false(cmwq_work_pending(&work));
	assert_false(cmwq_work_pending(&dwork.work));
	cmwq_free_workqueue_attrs(attrs);
}

static void no_workqueue_is_an_error(void **state)
{
	struct cmwq_workqueue *gone;

	(void)state;
	warnings_reset();
	assert_refused(NULL, EINVAL);
	/* Once each, naming the call. */
	assert_int_equal(warnings("cmwq_queue_work: the workqueue is NULL"), 1);
	assert_int_equal(warnings("cmwq_flush_workqueue: the workqueue is NULL"), 1);
	assert_int_equal(warnings("cmwq_destroy_workqueue: the workqueue is NULL"), 1);
	gone = cmwq_alloc_workqueue("gone", CMWQ_WQ_UNBOUND, 0);
	assert_int_equal(cmwq_destroy_workqueue(gone), 0);
	assert_refused(gone, ESTALE);
	assert_int_equal(warnings("cmwq_queue_work: there is no such workqueue"), 1);
	assert_int_equal(warnings("cmwq_destroy_workqueue: there is no such workqueue"), 1);
	/* What never was one. */
	assert_refused(none(1), ESTALE);
	assert_refused(none(UINTPTR_MAX), ESTALE);
	assert_refused((struct cmwq_workqueue *)(void *)&gone, ESTALE);
}

static void a_queue_that_takes_the_place_of_another_is_not_mistaken_for_it(void **state)
{
	struct cmwq_workqueue *gone = cmwq_alloc_workqueue("gone", CMWQ_WQ_UNBOUND, 0);
	struct probe probe;
	int i;

	(void)state;
	probe_init(&probe);
	cmwq_destroy_workqueue(gone);
	for (i = 0; i < 100; i++) {
		struct cmwq_workqueue *wq = cmwq_alloc_workqueue("new", CMWQ_WQ_UNBOUND, 0);

		assert_ptr_not_equal(wq, gone);
		assert_false(cmwq_queue_work(gone, (struct cmwq_work *)(void *)&probe.work));
		cmwq_destroy_workqueue(wq);
	}
}

static void no_item_is_an_error(void **state)
{
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("items", CMWQ_WQ_UNBOUND, 0);
	struct cmwq_work zeros;
	struct cmwq_delayed_work dzeros;
	char bytes[128];
	struct cmwq_work *crooked = (struct cmwq_work *)(void *)(bytes + ((uintptr_t)bytes % 2 ? 0 : 1));

	(void)state;
	warnings_reset();
	memset(&zeros, 0, sizeof(zeros));
	memset(&dzeros, 0, sizeof(dzeros));
	errno = 0;
	assert_false(cmwq_queue_work(wq, NULL));
	assert_int_equal(errno, EINVAL);
	assert_false(cmwq_queue_work(wq, NULL));
	assert_int_equal(warnings("cmwq_queue_work: the item is NULL"), 1);
	assert_false(cmwq_queue_work(wq, crooked));
	errno = 0;
	assert_false(cmwq_queue_work(wq, &zeros));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(warnings("cmwq_queue_work: the item has no function"), 1);
	assert_false(cmwq_queue_delayed_work_ns(wq, &dzeros, 5));
	assert_false(cmwq_mod_delayed_work_ns(wq, &dzeros, 0));
	assert_int_equal(warnings("cmwq_queue_delayed_work_ns: the item has no function"), 1);
	assert_false(cmwq_flush_work(&zeros));
	assert_false(cmwq_flush_work(NULL));
	assert_false(cmwq_cancel_work(NULL));
	assert_false(cmwq_cancel_work_sync(NULL));
	assert_false(cmwq_disable_work(NULL));
	assert_false(cmwq_disable_work_sync(NULL));
	assert_false(cmwq_enable_work(NULL));
	assert_false(cmwq_work_pending(NULL));
	assert_int_equal(cmwq_work_busy(NULL), 0);
	assert_false(cmwq_flush_delayed_work(NULL));
	assert_false(cmwq_cancel_delayed_work_sync(NULL));
	assert_false(cmwq_disable_delayed_work(NULL));
	cmwq_complete(NULL);
	cmwq_wait_for_completion(NULL);
	assert_int_equal(cmwq_schedule_on_each_cpu(NULL), -EINVAL);
	errno = 0;
	assert_int_equal(cmwq_queue_work_batch(wq, &(struct cmwq_work *){NULL}, 1), 0);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(cmwq_workqueue_read_attribute("misuse", "max_active", NULL, 8), -EINVAL);
	cmwq_task_get(NULL);
	cmwq_task_put(NULL);
	assert_false(cmwq_task_wake(NULL, 1));
	assert_int_equal(cmwq_task_bind(NULL, 0), -EINVAL);
	assert_int_equal(cmwq_task_allow(cmwq_current_task(), NULL), -EINVAL);
	assert_int_equal(warnings("cmwq_task_allow: the CPUs are NULL"), 1);
	assert_int_equal(cmwq_task_allow(NULL, NULL), -EINVAL);
	cmwq_task_name(NULL);
	assert_int_equal(cmwq_work_on_cpu(0, NULL, NULL), -EINVAL);
	assert_int_equal(cmwq_apply_workqueue_attrs(wq, NULL), -EINVAL);
	assert_null(cmwq_alloc_workqueue(NULL, CMWQ_WQ_UNBOUND, 0));
	assert_null(alloc_workqueue(NULL, WQ_UNBOUND, 0));
	assert_null(cmwq_system_workqueue((enum cmwq_system)99));
	cmwq_destroy_workqueue(wq);
}

static atomic_int nothings;

static void probe_nothing(struct work_struct *work)
{
	(void)work;
	nothings++;
}

/* false would be read as "pending already", and the item be lost. */
static void a_cpu_that_is_not_there_is_as_if_none_had_been_named(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_PERCPU, 0);
	struct probe probe;
	struct delayed_work dwork;
	int cpus[] = {-1, INT_MIN, 5000, 8191, 8193, INT_MAX};
	int count = ARRAY_SIZE(cpus), i;

	(void)state;
	warnings_reset();
	probe_init(&probe);
	for (i = 0; i < count; i++) {
		assert_true(queue_work_on(cpus[i], wq, &probe.work));
		assert_true(flush_work(&probe.work) || !work_pending(&probe.work));
		INIT_DELAYED_WORK(&dwork, probe_nothing);
		assert_true(queue_delayed_work_on(cpus[i], wq, &dwork, 1000000));
		assert_false(queue_delayed_work_on(cpus[i], wq, &dwork, 1));
		assert_true(mod_delayed_work_on(cpus[i], wq, &dwork, 1000000));
		assert_true(cancel_delayed_work_sync(&dwork));
		assert_false(mod_delayed_work_on(cpus[i], wq, &dwork, 0));
		flush_delayed_work(&dwork);
		assert_false(workqueue_congested(cpus[i], wq));
	}
	assert_int_equal(warnings("cmwq_queue_work_on: there is no CPU"), 1);
	assert_int_equal(warnings("cmwq_queue_delayed_work_on_ns: there is no CPU"), 1);
	assert_int_equal(warnings("cmwq_mod_delayed_work_on_ns: there is no CPU"), 1);
	destroy_workqueue(wq);
	assert_int_equal(probe.runs, count);
	assert_int_equal(nothings, count);
}

static struct workqueue_struct *contested;
static atomic_bool contest_ends;
static atomic_int after_end;

static void *contest(void *arg)
{
	struct probe *probe = arg;

	while (!contest_ends) {
		/* true while it lives or is being destroyed, false when it is gone; nothing else. */
		if (!queue_work(contested, &probe->work) && errno == ESTALE)
			after_end++;
		flush_workqueue(contested);
		workqueue_congested(0, contested);
		workqueue_set_max_active(contested, 5);
		cancel_work_sync(&probe->work);
	}
	return NULL;
}

static void a_queue_may_be_destroyed_while_others_use_it(void **state)
{
	struct probe probes[3];
	pthread_t threads[3];
	int round, i;

	(void)state;
	for (round = 0; round < 10; round++) {
		contested = new_wq(WQ_UNBOUND, 0);
		contest_ends = false;
		after_end = 0;
		for (i = 0; i < 3; i++) {
			probe_init(&probes[i]);
			assert_int_equal(pthread_create(&threads[i], NULL, contest, &probes[i]), 0);
		}
		sleep_ms(3);
		destroy_workqueue(contested);
		assert_true(becomes(after_end > 0));
		contest_ends = true;
		for (i = 0; i < 3; i++) {
			pthread_join(threads[i], NULL);
			assert_int_equal(work_busy(&probes[i].work), 0);
			assert_int_equal(probes[i].running, 0);
		}
	}
}

int misuse_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_workqueue_is_an_error),
		cmocka_unit_test(a_queue_that_takes_the_place_of_another_is_not_mistaken_for_it),
		cmocka_unit_test(no_item_is_an_error),
		cmocka_unit_test(a_cpu_that_is_not_there_is_as_if_none_had_been_named),
		cmocka_unit_test(a_queue_may_be_destroyed_while_others_use_it),
	};

	return cmocka_run_group_tests_name("misuse", tests, NULL, NULL);
}

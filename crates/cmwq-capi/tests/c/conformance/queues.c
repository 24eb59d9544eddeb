/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kinds of workqueues, the system's own, attributes, freezing, completions. */
#include "harness.h"
#include <dlfcn.h>

static int null_with(unsigned int flags, int max_active)
{
	struct workqueue_struct *wq;

	errno = 0;
	wq = alloc_workqueue("illegal", flags, max_active);
	if (wq) {
		destroy_workqueue(wq);
		return 0;
	}
	return errno;
}

static void flags_follow_the_rules(void **state)
{
	unsigned int legal[] = {
		WQ_PERCPU,
		WQ_UNBOUND,
		WQ_PERCPU | WQ_HIGHPRI,
		WQ_PERCPU | WQ_CPU_INTENSIVE,
		WQ_UNBOUND | WQ_CPU_INTENSIVE,
		WQ_UNBOUND | WQ_FREEZABLE | WQ_MEM_RECLAIM | WQ_HIGHPRI | WQ_SYSFS,
		WQ_PERCPU | WQ_POWER_EFFICIENT,
		WQ_UNBOUND | WQ_POWER_EFFICIENT,
		WQ_BH | WQ_PERCPU,
		WQ_BH | WQ_PERCPU | WQ_HIGHPRI,
	};
	size_t i;

	(void)state;
	warnings_reset();
	for (i = 0; i < ARRAY_SIZE(legal); i++) {
		struct workqueue_struct *wq = new_wq(legal[i], 0);
		struct probe probe;

		probe_init(&probe);
		assert_true(queue_work(wq, &probe.work));
		destroy_workqueue(wq);
		assert_int_equal(probe.runs, 1);
	}
	assert_int_equal(warnings("WQ_"), 0);
	assert_int_equal(null_with(WQ_BH | WQ_UNBOUND, 0), EINVAL);
	assert_int_equal(null_with(WQ_BH | WQ_FREEZABLE, 0), EINVAL);
	assert_int_equal(null_with(WQ_BH | WQ_MEM_RECLAIM, 0), EINVAL);
	assert_int_equal(null_with(WQ_BH, 4), EINVAL);
	assert_null(alloc_ordered_workqueue("bh", WQ_BH));
	assert_int_equal(null_with(WQ_UNBOUND | 1u << 9, 0), EINVAL);
	assert_int_equal(null_with(1u << 31, 0), EINVAL);
	assert_true(warnings("cmwq_alloc_workqueue") >= 1);
	/* Neither kind, both kinds: said once each, and it works. */
	warnings_reset();
	for (i = 0; i < 3; i++) {
		destroy_workqueue(new_wq(0, 0));
		destroy_workqueue(new_wq(WQ_PERCPU | WQ_UNBOUND, 0));
	}
	assert_int_equal(warnings("neither WQ_PERCPU nor WQ_UNBOUND"), 1);
	assert_int_equal(warnings("both WQ_PERCPU and WQ_UNBOUND"), 1);
}

/* As the file shows it. */
static const char *limit_of(const char *name)
{
	static char text[16];
	long len = cmwq_workqueue_read_attribute(name, "max_active", text, sizeof(text) - 1);

	text[len < 0 ? 0 : len] = 0;
	return text;
}

static void limits_out_of_range_are_cut(void **state)
{
	struct workqueue_struct *wq;

	(void)state;
	warnings_reset();
	wq = new_wq(WQ_UNBOUND, -5);
	workqueue_set_max_active(wq, 100000);
	workqueue_set_min_active(wq, 3);
	destroy_workqueue(wq);
	assert_int_equal(warnings("out of range"), 2);
	/* 0 is the default of a new queue only. Each function warns once of a value out of range, and has done so. */
	wq = alloc_workqueue("limits", WQ_UNBOUND | WQ_SYSFS, 0);
	assert_string_equal(limit_of("limits"), "1024\n");
	workqueue_set_max_active(wq, 7);
	workqueue_set_max_active(wq, 0);
	assert_string_equal(limit_of("limits"), "1\n");
	workqueue_set_max_active(wq, 7);
	workqueue_set_max_active(wq, -3);
	assert_string_equal(limit_of("limits"), "1\n");
	assert_int_equal(cmwq_workqueue_write_attribute("limits", "max_active", "7"), 0);
	assert_int_equal(cmwq_workqueue_write_attribute("limits", "max_active", "0"), -EINVAL);
	assert_string_equal(limit_of("limits"), "7\n");
	assert_int_equal(warnings("out of range"), 2);
	destroy_workqueue(wq);
	/* An ordered queue has none to change. */
	wq = alloc_ordered_workqueue("limit", 0);
	assert_int_equal(cmwq_workqueue_set_max_active((struct cmwq_workqueue *)(void *)wq, 4), -EINVAL);
	assert_int_equal(cmwq_workqueue_set_min_active((struct cmwq_workqueue *)(void *)wq, 4), -EINVAL);
	destroy_workqueue(wq);
}

static void long_names_are_cut(void **state)
{
	(void)state;
	warnings_reset();
	destroy_workqueue(alloc_workqueue("a-name-of-%d-bytes-%s", WQ_UNBOUND, 0, 99, "that-is-longer-than-any-tool-shows"));
	assert_int_equal(warnings("cut to 31 bytes"), 1);
}

static void old_constructors_work(void **state)
{
	struct workqueue_struct *wqs[] = {create_workqueue("old"), create_freezable_workqueue("old-f"), create_singlethread_workqueue("old-1")};
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wqs); i++) {
		struct probe probe;

		assert_non_null(wqs[i]);
		probe_init(&probe);
		queue_work(wqs[i], &probe.work);
		destroy_workqueue(wqs[i]);
		assert_int_equal(probe.runs, 1);
	}
}

static void every_system_queue_works(void **state)
{
	struct workqueue_struct *wqs[] = {
		system_percpu_wq, system_highpri_wq, system_long_wq, system_dfl_wq, system_dfl_long_wq,
		system_freezable_wq, system_power_efficient_wq, system_freezable_power_efficient_wq,
		system_bh_wq, system_bh_highpri_wq,
	};
	struct probe probe;
	struct delayed_work dwork;
	size_t i;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(wqs); i++) {
		assert_non_null(wqs[i]);
		probe_init(&probe);
		assert_true(queue_work(wqs[i], &probe.work));
		flush_work(&probe.work);
		assert_int_equal(probe.runs, 1);
	}
	assert_ptr_equal(system_percpu_wq, wqs[0]);
	warnings_reset();
	assert_ptr_not_equal(system_wq, system_percpu_wq);
	assert_ptr_not_equal(system_unbound_wq, system_dfl_wq);
	assert_int_equal(warnings("is deprecated"), 0);
	for (i = 0; i < 3; i++) {
		probe_init(&probe);
		assert_true(queue_work_on(0, system_wq, &probe.work));
		flush_work(&probe.work);
		assert_true(queue_work(system_unbound_wq, &probe.work));
		flush_work(&probe.work);
		assert_int_equal(probe.runs, 2);
	}
	assert_int_equal(warnings("system_wq is deprecated, use system_percpu_wq: "), 1);
	/* One for both. */
	assert_int_equal(warnings("is deprecated"), 1);
	probe_init(&probe);
	assert_true(queue_work(system_wq, &probe.work));
	flush_work(&probe.work);
	assert_true(schedule_work(&probe.work));
	flush_work(&probe.work);
	assert_true(schedule_work_on(0, &probe.work));
	flush_work(&probe.work);
	assert_int_equal(probe.runs, 3);
	INIT_DELAYED_WORK(&dwork, probe_run);
	assert_true(schedule_delayed_work(&dwork, 3600 * HZ));
	assert_true(cancel_delayed_work(&dwork));
	/* Waiting for others' work is warned of, and done. */
	flush_scheduled_work();
	assert_int_equal(warnings("flushing it waits"), 1);
	/* They stay. */
	assert_int_equal(cmwq_destroy_workqueue((struct cmwq_workqueue *)(void *)system_dfl_wq), -EINVAL);
	assert_true(queue_work(system_dfl_wq, &probe.work));
	flush_work(&probe.work);
}

static long where(void *arg)
{
	*(int *)arg = raw_smp_processor_id();
	return 42;
}

static atomic_int each[NR_CPUS];

static void on_each(struct work_struct *work)
{
	if (work == current_work())
		each[raw_smp_processor_id()]++;
}

static void functions_run_on_the_cpu_that_is_named(void **state)
{
	int cpu, at = -1;

	(void)state;
	for_each_online_cpu(cpu) {
		assert_int_equal(work_on_cpu(cpu, where, &at), 42);
		assert_int_equal(at, cpu);
	}
	assert_int_equal(schedule_on_each_cpu(on_each), 0);
	for_each_online_cpu(cpu)
		assert_int_equal(each[cpu], 1);
	assert_int_equal(work_on_cpu(5000, where, &at), -ENODEV);
	assert_int_equal(work_on_cpu(-1, where, &at), -ENODEV);
}

struct placed {
	struct work_struct work;
	atomic_int cpu;
};

static void note_cpu(struct work_struct *work)
{
	container_of(work, struct placed, work)->cpu = raw_smp_processor_id();
}

static void a_strict_queue_stays_in_its_mask(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0);
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct placed placed;
	int cpu, i;

	(void)state;
	assert_non_null(attrs);
	assert_int_equal(attrs->nice, 0);
	assert_int_equal(attrs->affn_scope, WQ_AFFN_DFL);
	assert_true(cpumask_equal(attrs->cpumask, cpu_possible_mask));
	INIT_WORK(&placed.work, note_cpu);
	attrs->affn_strict = true;
	for_each_online_cpu(cpu) {
		cpumask_clear(attrs->cpumask);
		cpumask_set_cpu((unsigned int)cpu, attrs->cpumask);
		assert_int_equal(apply_workqueue_attrs(wq, attrs), 0);
		for (i = 0; i < 5; i++) {
			queue_work(wq, &placed.work);
			flush_work(&placed.work);
			assert_int_equal(placed.cpu, cpu);
		}
	}
	{
		struct cmwq_workqueue_attrs now = CMWQ_WORKQUEUE_ATTRS_INIT;

		assert_int_equal(cmwq_get_workqueue_attrs((struct cmwq_workqueue *)(void *)wq, &now), 0);
		assert_true(now.affinity_strict);
		assert_memory_equal(&now.cpumask, attrs->cpumask, sizeof(now.cpumask));
	}
	attrs->nice = 50;
	assert_int_equal(apply_workqueue_attrs(wq, attrs), -EINVAL);
	attrs->nice = 0;
	attrs->affn_scope = WQ_AFFN_NR_TYPES;
	assert_int_equal(apply_workqueue_attrs(wq, attrs), -EINVAL);
	destroy_workqueue(wq);
	attrs->affn_scope = WQ_AFFN_DFL;
	wq = new_wq(WQ_PERCPU, 0);
	assert_int_equal(apply_workqueue_attrs(wq, attrs), -EINVAL);
	destroy_workqueue(wq);
	free_workqueue_attrs(attrs);
	free_workqueue_attrs(NULL);
}

static void an_item_may_name_cpu_and_node(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND, 0), *percpu = new_wq(WQ_PERCPU, 0);
	struct placed placed;
	int cpu;

	(void)state;
	INIT_WORK(&placed.work, note_cpu);
	for_each_online_cpu(cpu) {
		assert_true(queue_work_on(cpu, percpu, &placed.work));
		flush_work(&placed.work);
		assert_int_equal(placed.cpu, cpu);
	}
	assert_true(queue_work_on(WORK_CPU_UNBOUND, wq, &placed.work));
	flush_work(&placed.work);
	assert_true(queue_work_node(0, wq, &placed.work));
	flush_work(&placed.work);
	assert_true(queue_work_node(NUMA_NO_NODE, wq, &placed.work));
	flush_work(&placed.work);
	/* Best effort: a node that is not there, a queue that is not unbound. */
	assert_true(queue_work_node(77, wq, &placed.work));
	flush_work(&placed.work);
	assert_true(queue_work_node(0, percpu, &placed.work));
	flush_work(&placed.work);
	destroy_workqueue(wq);
	destroy_workqueue(percpu);
}

static void frozen_queues_start_nothing(void **state)
{
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND | WQ_FREEZABLE, 0), *other = new_wq(WQ_UNBOUND, 0);
	struct probe active, waiting, cancelled, free_one;

	(void)state;
	probe_init(&active);
	probe_init(&waiting);
	probe_init(&cancelled);
	probe_init(&free_one);
	probe_hold(&active, wq);
	freeze_workqueues_begin();
	assert_true(freeze_workqueues_busy());
	queue_work(wq, &waiting.work);
	queue_work(wq, &cancelled.work);
	queue_work(other, &free_one.work);
	probe_let_go(&active);
	assert_true(becomes(!freeze_workqueues_busy()));
	flush_workqueue(other);
	assert_int_equal(free_one.runs, 1);
	assert_true(cancel_work_sync(&cancelled.work));
	sleep_ms(5);
	assert_int_equal(waiting.runs, 0);
	thaw_workqueues();
	flush_workqueue(wq);
	assert_int_equal(waiting.runs, 1);
	assert_int_equal(cancelled.runs, 0);
	destroy_workqueue(wq);
	destroy_workqueue(other);
}

static void *complete_three(void *arg)
{
	int i;

	for (i = 0; i < 3; i++) {
		sleep_ms(2);
		complete(arg);
	}
	return NULL;
}

static void completions_count(void **state)
{
	DECLARE_COMPLETION_ONSTACK(done);
	pthread_t thread;
	int i;

	(void)state;
	assert_false(completion_done(&done));
	assert_false(try_wait_for_completion(&done));
	assert_int_equal(wait_for_completion_timeout(&done, 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, complete_three, &done), 0);
	for (i = 0; i < 3; i++)
		wait_for_completion(&done);
	pthread_join(thread, NULL);
	assert_false(completion_done(&done));
	complete(&done);
	assert_true(wait_for_completion_timeout(&done, HZ) > 0);
	complete_all(&done);
	for (i = 0; i < 3; i++)
		assert_int_equal(wait_for_completion_interruptible(&done), 0);
	assert_true(completion_done(&done));
	reinit_completion(&done);
	assert_false(completion_done(&done));
}

/*
 * When no thread can be created: the library's calls of pthread_create come here first, as the program's symbols come before a
 * library's. A sanitizer has its own there, so it is left out then.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(CMWQ_TSAN)
static atomic_bool no_threads;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)(&real) = dlsym(RTLD_NEXT, "pthread_create");
	return no_threads ? EAGAIN : real(thread, attr, fn, arg);
}

static atomic_int rescued;

static void note_rescue(struct work_struct *work)
{
	(void)work;
	rescued += current_is_workqueue_rescuer() && current_is_workqueue_mem_reclaim();
}

static void a_rescuer_runs_what_no_worker_can(void **state)
{
	/* A strict queue with a nice level of its own: a pool that no other queue has, and that has no worker yet. */
	struct workqueue_struct *wq = new_wq(WQ_UNBOUND | WQ_MEM_RECLAIM, 0), *refused;
	struct workqueue_attrs *attrs = alloc_workqueue_attrs();
	struct work_struct items[20];
	size_t i;

	(void)state;
	no_threads = true;
	rescued = 0;
	attrs->nice = 7;
	attrs->affn_strict = true;
	assert_int_equal(apply_workqueue_attrs(wq, attrs), 0);
	for (i = 0; i < ARRAY_SIZE(items); i++) {
		INIT_WORK(&items[i], note_rescue);
		queue_work(wq, &items[i]);
	}
	assert_true(becomes(rescued == (int)ARRAY_SIZE(items)));
	/* Another that needs a rescuer cannot be had now. */
	errno = 0;
	refused = alloc_workqueue("no-rescuer", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	assert_null(refused);
	assert_int_equal(errno, EAGAIN);
	no_threads = false;
	destroy_workqueue(wq);
	free_workqueue_attrs(attrs);
}
#endif

int queue_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flags_follow_the_rules),
		cmocka_unit_test(limits_out_of_range_are_cut),
		cmocka_unit_test(long_names_are_cut),
		cmocka_unit_test(old_constructors_work),
		cmocka_unit_test(every_system_queue_works),
		cmocka_unit_test(functions_run_on_the_cpu_that_is_named),
		cmocka_unit_test(a_strict_queue_stays_in_its_mask),
		cmocka_unit_test(an_item_may_name_cpu_and_node),
		cmocka_unit_test(frozen_queues_start_nothing),
		cmocka_unit_test(completions_count),
#if !defined(__SANITIZE_ADDRESS__) && !defined(CMWQ_TSAN)
		cmocka_unit_test(a_rescuer_runs_what_no_worker_can),
#endif
	};

	return cmocka_run_group_tests_name("queues", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waiting for whole workqueues. */
#include "harness.h"

enum { FLUSHERS = 40 };

static struct workqueue_struct *flushed;
static atomic_bool producing;
static atomic_ulong queued_items, run_items;
static atomic_int early;

struct counted {
	struct work_struct work;
};

static void count(struct work_struct *work)
{
	free(container_of(work, struct counted, work));
	atomic_fetch_add(&run_items, 1);
}

static void *produce(void *arg)
{
	(void)arg;
	while (producing) {
		struct counted *item = malloc(sizeof(*item));

		if (!item)
			break;
		INIT_WORK(&item->work, count);
		atomic_fetch_add(&queued_items, 1);
		queue_work(flushed, &item->work);
		sched_yield();
	}
	return NULL;
}

static void *flusher(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 5; i++) {
		/* An item of this thread's own must have run when its flush returns. */
		struct probe probe;

		probe_init(&probe);
		queue_work(flushed, &probe.work);
		flush_workqueue(flushed);
		if (probe.runs != 1 || probe.running)
			early++;
	}
	return NULL;
}

static void many_flushers_return_with_a_steady_producer(void **state)
{
	pthread_t threads[FLUSHERS], producer;
	int i;

	(void)state;
	flushed = new_wq(WQ_UNBOUND, 0);
	producing = true;
	assert_int_equal(pthread_create(&producer, NULL, produce, NULL), 0);
	for (i = 0; i < FLUSHERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, flusher, NULL), 0);
	for (i = 0; i < FLUSHERS; i++)
		pthread_join(threads[i], NULL);
	producing = false;
	pthread_join(producer, NULL);
	destroy_workqueue(flushed);
	assert_int_equal(early, 0);
	assert_int_equal(queued_items, run_items);
}

struct chain {
	struct work_struct work;
	struct workqueue_struct *wq;
	atomic_bool ends;
	atomic_int refused, runs;
};

static void chain_run(struct work_struct *work)
{
	struct chain *chain = container_of(work, struct chain, work);

	chain->runs++;
	sleep_ms(1);
	if (!chain->ends && !queue_work(chain->wq, work))
		chain->refused++;
}

static void *drain_it(void *arg)
{
	drain_workqueue(arg);
	return NULL;
}

static void drain_takes_chained_items_and_drops_others(void **state)
{
	struct chain chain = {.wq = new_wq(WQ_UNBOUND, 0)};
	struct probe outside;
	pthread_t drainer;
	int before;

	(void)state;
	warnings_reset();
	INIT_WORK(&chain.work, chain_run);
	probe_init(&outside);
	queue_work(chain.wq, &chain.work);
	assert_int_equal(pthread_create(&drainer, NULL, drain_it, chain.wq), 0);
	/* Until the drain has begun it is taken; then it is dropped, and "true" is returned all the same. */
	assert_true(becomes((queue_work(chain.wq, &outside.work), warnings("dropped"))));
	assert_false(work_pending(&outside.work));
	assert_true(queue_work(chain.wq, &outside.work));
	before = chain.runs;
	assert_true(becomes(chain.runs > before + 20));
	chain.ends = true;
	pthread_join(drainer, NULL);
	assert_int_equal(chain.refused, 0);
	/* Said once. */
	assert_int_equal(warnings("dropped"), 1);
	/* The drain is over: items are taken again. */
	outside.runs = 0;
	assert_true(queue_work(chain.wq, &outside.work));
	flush_workqueue(chain.wq);
	assert_int_equal(outside.runs, 1);
	destroy_workqueue(chain.wq);
}

struct own {
	struct work_struct work;
	struct workqueue_struct *wq;
	int flushed, item_flushed, cancelled, timed, error;
};

static void wait_for_oneself(struct work_struct *work)
{
	struct own *own = container_of(work, struct own, work);

	own->flushed = cmwq_flush_workqueue((struct cmwq_workqueue *)(void *)own->wq);
	errno = 0;
	own->item_flushed = flush_work(work);
	own->error = errno;
	own->timed = cmwq_flush_work_timeout_ns((struct cmwq_work *)(void *)work, UINT64_MAX);
	own->cancelled = cancel_work_sync(work);
}

static void waiting_for_oneself_is_noticed(void **state)
{
	struct own own = {.wq = new_wq(WQ_UNBOUND, 0), .item_flushed = 1, .cancelled = 1};

	(void)state;
	INIT_WORK(&own.work, wait_for_oneself);
	queue_work(own.wq, &own.work);
	destroy_workqueue(own.wq);
	assert_int_equal(own.flushed, -EDEADLK);
	assert_false(own.item_flushed);
	assert_int_equal(own.error, EDEADLK);
	assert_int_equal(own.timed, -EDEADLK);
	assert_false(own.cancelled);
}

struct behind {
	struct work_struct work;
	struct workqueue_struct *wq, *other;
	struct probe probe;
	int timed, again;
};

static void wait_for_what_is_behind(struct work_struct *work)
{
	struct behind *own = container_of(work, struct behind, work);
	struct cmwq_work *probe = (struct cmwq_work *)(void *)&own->probe.work;

	queue_work(own->other, &own->probe.work);
	own->timed = cmwq_flush_work_timeout_ns(probe, UINT64_MAX);
	own->again = cmwq_flush_work_timeout_ns(probe, 0);
}

/* Of one ordered workqueue, and of two with a group: the item that is waited for needs the place of the one that waits. */
static void waiting_for_what_needs_the_own_place_is_noticed(void **state)
{
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;
	struct behind own = {.timed = 1};
	int i;

	(void)state;
	options.group = cmwq_alloc_group("one place", 1);
	for (i = 0; i < 2; i++) {
		struct cmwq_workqueue *grouped[2];

		if (i == 0) {
			own.wq = own.other = alloc_ordered_workqueue("ordered", 0);
		} else {
			grouped[0] = cmwq_alloc_workqueue_with("first", CMWQ_WQ_UNBOUND, 0, &options);
			grouped[1] = cmwq_alloc_workqueue_with("second", CMWQ_WQ_UNBOUND, 0, &options);
			own.wq = (struct workqueue_struct *)(void *)grouped[0];
			own.other = (struct workqueue_struct *)(void *)grouped[1];
		}
		probe_init(&own.probe);
		INIT_WORK(&own.work, wait_for_what_is_behind);
		queue_work(own.wq, &own.work);
		flush_work(&own.work);
		assert_int_equal(own.timed, -EDEADLK);
		assert_int_equal(own.again, -EDEADLK);
		flush_work(&own.probe.work);
		assert_int_equal(own.probe.runs, 1);
		destroy_workqueue(own.wq);
		if (own.other != own.wq)
			destroy_workqueue(own.other);
	}
	cmwq_free_group(options.group);
}

static void end_own_queue(struct work_struct *work)
{
	struct own *own = container_of(work, struct own, work);

	destroy_workqueue(own->wq);
	own->flushed = 1;
}

static void a_queue_may_be_destroyed_from_its_own_item(void **state)
{
	struct own own = {.wq = new_wq(WQ_UNBOUND, 0)};

	(void)state;
	INIT_WORK(&own.work, end_own_queue);
	queue_work(own.wq, &own.work);
	flush_work(&own.work);
	assert_int_equal(own.flushed, 1);
	/* Soon it is gone. */
	assert_true(becomes(cmwq_flush_workqueue((struct cmwq_workqueue *)(void *)own.wq) == -ESTALE));
}

int flush_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_flushers_return_with_a_steady_producer),
		cmocka_unit_test(drain_takes_chained_items_and_drops_others),
		cmocka_unit_test(waiting_for_oneself_is_noticed),
		cmocka_unit_test(waiting_for_what_needs_the_own_place_is_noticed),
		cmocka_unit_test(a_queue_may_be_destroyed_from_its_own_item),
	};

	return cmocka_run_group_tests_name("flushes", tests, NULL, NULL);
}

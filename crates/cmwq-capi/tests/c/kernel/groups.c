/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* One limit for the workqueues of a program that has several kinds of work. */
#include <cmwq.h>
#include <errno.h>
#include <stdatomic.h>

#include "check.h"

enum { NR_QUEUES = 3, NR_ITEMS = 300, LIMIT = 2 };

static atomic_int nr_inside, nr_most, nr_run, limit = LIMIT;
static struct cmwq_completion open_door;
static atomic_int nr_arrived;

static void run(struct cmwq_work *work)
{
	int now = atomic_fetch_add(&nr_inside, 1) + 1, most = atomic_load(&nr_most);

	(void)work;
	while (most < now && !atomic_compare_exchange_weak(&nr_most, &most, now))
		;
	CHECK(now <= limit);
	atomic_fetch_sub(&nr_inside, 1);
	atomic_fetch_add(&nr_run, 1);
}

static void stay(struct cmwq_work *work)
{
	(void)work;
	atomic_fetch_add(&nr_arrived, 1);
	cmwq_wait_for_completion(&open_door);
}

int main(void)
{
	static struct cmwq_work items[NR_QUEUES][NR_ITEMS], staying[4];
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;
	struct cmwq_workqueue *wqs[NR_QUEUES];
	unsigned int kinds[NR_QUEUES] = {CMWQ_WQ_UNBOUND, CMWQ_WQ_PERCPU, CMWQ_WQ_UNBOUND};
	int wq, i;

	errno = 0;
	CHECK(!cmwq_alloc_group("none", 0) && errno == EINVAL);
	CHECK(!cmwq_alloc_group(NULL, 1));
	CHECK(cmwq_group_set_max_active(NULL, 1) == -EINVAL);
	cmwq_free_group(NULL);

	options.group = cmwq_alloc_group("all", LIMIT);
	CHECK(options.group);
	CHECK(!cmwq_alloc_workqueue_with("bh", CMWQ_WQ_BH | CMWQ_WQ_PERCPU, 0, &options));
	for (wq = 0; wq < NR_QUEUES; wq++) {
		options.ordered = wq == 2;
		wqs[wq] = cmwq_alloc_workqueue_with("kind", kinds[wq], wq == 2 ? 1 : 0, &options);
		CHECK(wqs[wq]);
	}
	for (i = 0; i < NR_ITEMS; i++) {
		for (wq = 0; wq < NR_QUEUES; wq++) {
			cmwq_init_work(&items[wq][i], run);
			CHECK(cmwq_queue_work(wqs[wq], &items[wq][i]));
		}
	}
	for (wq = 0; wq < NR_QUEUES; wq++)
		CHECK(cmwq_flush_workqueue(wqs[wq]) == 0);
	CHECK(nr_run == NR_QUEUES * NR_ITEMS && nr_most >= 1 && nr_most <= LIMIT);

	/* Raised while items wait. */
	for (i = 0; i < 4; i++) {
		cmwq_init_work(&staying[i], stay);
		CHECK(cmwq_queue_work(wqs[i % 2], &staying[i]));
	}
	CHECK_SOON(nr_arrived == LIMIT);
	CHECK(cmwq_group_set_max_active(options.group, -1) == -EINVAL);
	CHECK(cmwq_group_set_max_active(options.group, LIMIT + 1) == 0);
	CHECK_SOON(nr_arrived == LIMIT + 1);
	cmwq_complete_all(&open_door);
	/* The workqueues keep what they need of the group. */
	cmwq_free_group(options.group);
	for (wq = 0; wq < NR_QUEUES; wq++)
		CHECK(cmwq_destroy_workqueue(wqs[wq]) == 0);
	CHECK(nr_arrived == 4);
	return 0;
}

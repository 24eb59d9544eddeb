/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Items that have all places of their workqueue and flush items behind them: a flush leaves those to workers, and these have no place. So
 * nothing goes on until there are more places, as in the kernel.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/workqueue.h>

#include "check.h"

enum { PLACES = 2 };

struct pair {
	struct work_struct first, behind;
	bool behind_ran, flushed;
};

static struct pair pairs[PLACES];
static atomic_t nr_flushing, nr_behind;
static DECLARE_COMPLETION(all_queued);

static void run_behind(struct work_struct *work)
{
	container_of(work, struct pair, behind)->behind_ran = true;
	atomic_inc(&nr_behind);
}

static void run_first(struct work_struct *work)
{
	struct pair *pair = container_of(work, struct pair, first);

	/* What is not queued yet is not waited for. */
	wait_for_completion(&all_queued);
	atomic_inc(&nr_flushing);
	/* False if this thread begins to wait late, when it has run. */
	flush_work(&pair->behind);
	pair->flushed = pair->behind_ran;
}

static void nothing(struct work_struct *work)
{
	(void)work;
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("narrow", WQ_UNBOUND, PLACES), *other = alloc_workqueue("other", WQ_UNBOUND, 0);
	struct work_struct work;
	int i;

	CHECK(wq && other);
	for (i = 0; i < PLACES; i++) {
		INIT_WORK(&pairs[i].first, run_first);
		INIT_WORK(&pairs[i].behind, run_behind);
	}
	for (i = 0; i < PLACES; i++)
		CHECK(queue_work(wq, &pairs[i].first));
	for (i = 0; i < PLACES; i++)
		CHECK(queue_work(wq, &pairs[i].behind));
	complete_all(&all_queued);
	CHECK_SOON(atomic_read(&nr_flushing) == PLACES);
	/* The pool goes on with what has a place. */
	for (i = 0; i < 1000; i++) {
		INIT_WORK(&work, nothing);
		CHECK(queue_work(other, &work));
		flush_work(&work);
	}
	CHECK(atomic_read(&nr_behind) == 0 && work_pending(&pairs[0].behind) && work_pending(&pairs[1].behind));
	CHECK(work_busy(&pairs[0].first) == WORK_BUSY_RUNNING && workqueue_congested(WORK_CPU_UNBOUND, wq));
	workqueue_set_max_active(wq, PLACES + 1);
	flush_workqueue(wq);
	CHECK(atomic_read(&nr_behind) == PLACES && pairs[0].flushed && pairs[1].flushed);
	destroy_workqueue(wq);
	destroy_workqueue(other);
	return 0;
}

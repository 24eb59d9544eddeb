/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Items that their own functions initialise and queue again, as closures do with each step: no step is lost, on any kind of queue. */
#include <linux/workqueue.h>
#include <linux/completion.h>
#include <linux/kernel.h>

#include "check.h"

enum { CHAINS = 8, STEPS = 20000 };

struct chain {
	union {
		struct {
			struct workqueue_struct *wq;
			void *unused[2];
			work_func_t fn;
		};
		struct work_struct work;
	};
	/* Outside of the item: `wq` lies over what the queue writes to. */
	struct workqueue_struct *queue;
	int step;
	struct completion done;
};

static void odd(struct work_struct *work);

static void step(struct work_struct *work, work_func_t next)
{
	struct chain *chain = container_of(work, struct chain, work);

	if (++chain->step == STEPS) {
		complete(&chain->done);
		return;
	}
	INIT_WORK(&chain->work, next);
	CHECK(queue_work(chain->queue, &chain->work));
}

static void even(struct work_struct *work)
{
	step(work, odd);
}

static void odd(struct work_struct *work)
{
	step(work, even);
}

/* An item that is initialised by its function is a new one: flushing and cancelling it know nothing of the run. */
static struct completion go_on, initialised;

static void becomes_new(struct work_struct *work)
{
	INIT_WORK(work, becomes_new);
	complete(&initialised);
	wait_for_completion(&go_on);
}

static void what_is_lost(struct workqueue_struct *wq)
{
	struct work_struct work;

	init_completion(&go_on);
	init_completion(&initialised);
	INIT_WORK(&work, becomes_new);
	CHECK(queue_work(wq, &work));
	wait_for_completion(&initialised);
	CHECK(!flush_work(&work));
	CHECK(!cancel_work_sync(&work));
	CHECK(!work_busy(&work));
	complete(&go_on);
	flush_workqueue(wq);
}

int main(void)
{
	struct workqueue_struct *wqs[] = {alloc_workqueue("unbound", WQ_UNBOUND, 0), alloc_workqueue("percpu", WQ_PERCPU, 0),
					  alloc_workqueue("reclaim", WQ_UNBOUND | WQ_MEM_RECLAIM, 1), alloc_ordered_workqueue("ordered", 0),
					  alloc_workqueue("bh", WQ_BH, 0)};
	static struct chain chains[CHAINS];
	size_t q;
	int i;

	for (q = 0; q < ARRAY_SIZE(wqs); q++) {
		for (i = 0; i < CHAINS; i++) {
			chains[i].queue = wqs[q];
			chains[i].step = 0;
			init_completion(&chains[i].done);
			INIT_WORK(&chains[i].work, even);
			CHECK(queue_work(wqs[q], &chains[i].work));
		}
		for (i = 0; i < CHAINS; i++)
			CHECK(wait_for_completion_timeout(&chains[i].done, 60 * HZ));
		flush_workqueue(wqs[q]);
		for (i = 0; i < CHAINS; i++)
			CHECK(chains[i].step == STEPS);
	}
	what_is_lost(wqs[0]);
	for (q = 0; q < ARRAY_SIZE(wqs); q++)
		destroy_workqueue(wqs[q]);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread that sleeps until an item wakes it. */
#include <cmwq.h>
#include <stdatomic.h>
#include <stdio.h>

#define SLEEPS 1u

static struct cmwq_task *sleeper;
static atomic_bool is_done;

static void finish(struct cmwq_work *work)
{
	(void)work;
	atomic_store(&is_done, true);
	cmwq_task_wake(sleeper, SLEEPS);
}

static struct cmwq_work work = CMWQ_WORK_INIT(finish);

int main(void)
{
	struct cmwq_workqueue *wq;

	wq = cmwq_alloc_workqueue("finish", CMWQ_WQ_UNBOUND, 0);
	if (!wq)
		return 1;
	sleeper = cmwq_current_task();
	cmwq_queue_work(wq, &work);
	for (;;) {
		/* The state is set before the condition is checked. */
		__atomic_store_n(&sleeper->state, SLEEPS, __ATOMIC_SEQ_CST);
		if (atomic_load(&is_done))
			break;
		cmwq_task_sleep_ns(UINT64_MAX);
	}
	__atomic_store_n(&sleeper->state, 0, __ATOMIC_SEQ_CST);
	printf("the item has finished\n");
	return cmwq_destroy_workqueue(wq) ? 1 : 0;
}

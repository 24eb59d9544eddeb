/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A configuration that items read without a lock while another thread replaces it. The old one is
 * freed when no item reads it any more.
 */
#include <cmwq.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct config {
	int level;
};

static struct config *_Atomic current;

static void report(struct cmwq_work *work)
{
	(void)work;
	cmwq_rcu_read_lock();
	if (atomic_load(&current)->level > 0)
		printf("there is a level\n");
	cmwq_rcu_read_unlock();
}

static struct cmwq_work work = CMWQ_WORK_INIT(report);

static void replace(int level)
{
	struct config *next = malloc(sizeof(*next));

	if (!next)
		abort();
	next->level = level;
	next = atomic_exchange(&current, next);
	/* Waits for the readers that may have found the old one. */
	cmwq_synchronize_rcu();
	free(next);
}

int main(void)
{
	struct cmwq_workqueue *wq;

	wq = cmwq_alloc_workqueue("reports", CMWQ_WQ_UNBOUND, 0);
	if (!wq)
		return 1;
	replace(1);
	cmwq_queue_work(wq, &work);
	replace(2);
	cmwq_destroy_workqueue(wq);
	free(atomic_load(&current));
	return 0;
}

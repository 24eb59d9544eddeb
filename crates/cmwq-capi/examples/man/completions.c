/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The main thread waits until an item has got as far as it says. */
#include <cmwq.h>
#include <stdio.h>

static struct cmwq_completion ready = CMWQ_COMPLETION_INIT;

static void serve(struct cmwq_work *work)
{
	(void)work;
	/* Here the item would open its files. */
	cmwq_complete(&ready);
	/* Here it would go on for long. */
}

static struct cmwq_work work = CMWQ_WORK_INIT(serve);

int main(void)
{
	struct cmwq_workqueue *wq;

	wq = cmwq_alloc_workqueue("server", CMWQ_WQ_UNBOUND, 0);
	if (!wq)
		return 1;
	cmwq_queue_work(wq, &work);
	if (!cmwq_wait_for_completion_timeout_ns(&ready, 60000000000)) {
		fprintf(stderr, "it does not start\n");
		return 1;
	}
	printf("it serves\n");
	return cmwq_destroy_workqueue(wq) ? 1 : 0;
}

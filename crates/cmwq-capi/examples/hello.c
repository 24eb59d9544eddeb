/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The smallest program: an item, a workqueue, and waiting for it.
 *
 *     cc hello.c $(pkg-config --cflags --libs cmwq) -o hello && ./hello
 */
#include <cmwq.h>
#include <stdio.h>

static void hello(struct cmwq_work *work)
{
	(void)work;
	printf("hello from a worker\n");
}

static struct cmwq_work work = CMWQ_WORK_INIT(hello);

int main(void)
{
	struct cmwq_workqueue *wq;

	wq = cmwq_alloc_workqueue("hello", CMWQ_WQ_UNBOUND, 0);
	if (!wq) {
		perror("cmwq_alloc_workqueue");
		return 1;
	}
	cmwq_queue_work(wq, &work);
	cmwq_flush_work(&work);
	return cmwq_destroy_workqueue(wq) ? 1 : 0;
}

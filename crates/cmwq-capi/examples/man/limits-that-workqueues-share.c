/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two workqueues with one limit: at most four of their items are active at the same time, and at
 * most two of them belong to the second one.
 */
#include <cmwq.h>
#include <stdio.h>

static void read_block(struct cmwq_work *work)
{
	(void)work;
	printf("read\n");
}

static struct cmwq_work first = CMWQ_WORK_INIT(read_block);
static struct cmwq_work second = CMWQ_WORK_INIT(read_block);

int main(void)
{
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;
	struct cmwq_workqueue *fast, *slow;

	options.group = cmwq_alloc_group("io", 4);
	if (!options.group)
		return 1;
	fast = cmwq_alloc_workqueue_with("fast", CMWQ_WQ_UNBOUND, 0,
			&options);
	slow = cmwq_alloc_workqueue_with("slow", CMWQ_WQ_UNBOUND, 2,
			&options);
	cmwq_free_group(options.group);
	if (!fast || !slow)
		return 1;
	cmwq_queue_work(fast, &first);
	cmwq_queue_work(slow, &second);
	cmwq_destroy_workqueue(fast);
	cmwq_destroy_workqueue(slow);
	return 0;
}

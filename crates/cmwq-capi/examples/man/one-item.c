/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A caller that waits for an item for a minute at most, takes it back if it has not begun by
 * then, and otherwise waits for the rest of its run.
 */
#include <cmwq.h>
#include <errno.h>
#include <stdio.h>

#define MINUTE 60000000000ull

static int answer;

static void look_up(struct cmwq_work *work)
{
	(void)work;
	answer = 42;
}

static struct cmwq_work work = CMWQ_WORK_INIT(look_up);

int main(void)
{
	struct cmwq_workqueue *wq;

	wq = cmwq_alloc_workqueue("look-ups", CMWQ_WQ_UNBOUND, 0);
	if (!wq)
		return 1;
	cmwq_queue_work(wq, &work);
	if (cmwq_flush_work_timeout_ns(&work, MINUTE) == -ETIMEDOUT &&
	    cmwq_cancel_work_sync(&work))
		printf("not in time\n");
	else
		printf("the answer is %d\n", answer);
	return cmwq_destroy_workqueue(wq) ? 1 : 0;
}

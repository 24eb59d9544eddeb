/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A service that ends in bounded time: if its items have not ended after a minute, it says which
 * of them still run.
 */
#include <cmwq.h>
#include <stdio.h>

#define SECOND 1000000000ull

static void answer(struct cmwq_work *work)
{
	(void)work;
	cmwq_sleep_ns(SECOND / 1000);
	printf("answered\n");
}

static struct cmwq_work work = CMWQ_WORK_INIT(answer);

int main(void)
{
	struct cmwq_workqueue *wq;
	char text[1024];

	/* At most 16 items are active at the same time. */
	wq = cmwq_alloc_workqueue("requests", CMWQ_WQ_UNBOUND, 16);
	if (!wq) {
		perror("cmwq_alloc_workqueue");
		return 1;
	}
	cmwq_queue_work(wq, &work);
	if (cmwq_destroy_workqueue_timeout_ns(wq, 60 * SECOND)) {
		if (cmwq_workqueue_unfinished(wq, text, sizeof(text)) > 0)
			fprintf(stderr, "%s\n", text);
		return 1;
	}
	printf("all requests have ended\n");
	return 0;
}

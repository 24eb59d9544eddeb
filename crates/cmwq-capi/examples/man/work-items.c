/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* An item is embedded in the structure that it works on. */
#include <cmwq.h>
#include <stdio.h>

struct request {
	const char *path;
	struct cmwq_work work;
};

static void handle(struct cmwq_work *work)
{
	struct request *request;

	request = CMWQ_CONTAINER_OF(work, struct request, work);
	printf("GET %s\n", request->path);
}

int main(void)
{
	struct cmwq_workqueue *wq;
	struct request request;

	wq = cmwq_alloc_workqueue("requests", CMWQ_WQ_UNBOUND, 0);
	if (!wq)
		return 1;
	request.path = "/index.html";
	cmwq_init_work(&request.work, handle);
	cmwq_queue_work(wq, &request.work);
	/* The request is on the stack of this function. */
	cmwq_flush_work(&request.work);
	return cmwq_destroy_workqueue(wq) ? 1 : 0;
}

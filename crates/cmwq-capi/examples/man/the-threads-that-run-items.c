/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that sets up state of its own on every thread that runs items. */
#include <cmwq.h>
#include <stdio.h>

static _Thread_local const char *greeting = "not set up";

static void start(const struct cmwq_worker *worker, void *arg)
{
	(void)worker;
	greeting = (const char *)arg;
}

static void use(struct cmwq_work *work)
{
	(void)work;
	printf("%s\n", greeting);
}

static struct cmwq_work work = CMWQ_WORK_INIT(use);
static char set_up[] = "set up";

int main(void)
{
	struct cmwq_thread_attrs attrs = CMWQ_THREAD_ATTRS_INIT;
	struct cmwq_threads *threads;
	struct cmwq_workqueue *wq;

	attrs.worker_start = start;
	attrs.arg = set_up;
	attrs.name_format = "db-%p:%i";
	attrs.stack_size = 8 << 20;
	threads = cmwq_alloc_threads(&attrs);
	/* Before the first workqueue. */
	if (!threads || cmwq_set_default_threads(threads))
		return 1;
	cmwq_free_threads(threads);
	wq = cmwq_alloc_workqueue("queries", CMWQ_WQ_UNBOUND, 0);
	if (!wq)
		return 1;
	cmwq_queue_work(wq, &work);
	return cmwq_destroy_workqueue(wq) ? 1 : 0;
}

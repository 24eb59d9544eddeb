/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An item that declares a wait of which the library does not know, so that another item runs
 * meanwhile, and that describes itself for tools such as "cmwq top".
 */
#include <cmwq.h>
#include <stdio.h>
#include <string.h>

static void wait_for_input(void *line)
{
	if (!fgets((char *)line, 80, stdin))
		*(char *)line = 0;
}

static void read_line(struct cmwq_work *work)
{
	char line[80];

	(void)work;
	cmwq_set_worker_desc("standard input");
	cmwq_blocking(wait_for_input, line);
	printf("read %zu bytes\n", strlen(line));
}

static struct cmwq_work work = CMWQ_WORK_INIT(read_line);

int main(void)
{
	struct cmwq_workqueue *wq;

	wq = cmwq_alloc_workqueue("input", CMWQ_WQ_UNBOUND, 0);
	if (!wq)
		return 1;
	cmwq_queue_work(wq, &work);
	return cmwq_destroy_workqueue(wq) ? 1 : 0;
}

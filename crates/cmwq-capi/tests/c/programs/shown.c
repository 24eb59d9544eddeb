/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Functions that are queued with an argument: the dump shows them by their own names. */
#include <cmwq.h>
#include <cmwq_cq.h>
#include <stdio.h>
#include <unistd.h>

static struct cmwq_completion begun;
static struct cmwq_completion end;

int64_t thumbnail(void *arg)
{
	(void)arg;
	cmwq_complete(&begun);
	cmwq_wait_for_completion(&end);
	return 1;
}

int64_t checksum(void *arg)
{
	(void)arg;
	return 2;
}

/* Runs on the CPU beside a waiting thread, and shows all. */
long look_around(void *arg)
{
	(void)arg;
	cmwq_show_all_workqueues();
	return 3;
}

int main(void)
{
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("shown", CMWQ_WQ_UNBOUND, 1);
	struct cmwq_cq *cq = cmwq_cq_create(0, 0);
	struct cmwq_cqe entries[4];
	int64_t sum = 0;
	size_t count = 0;
	size_t i;

	if (!wq || !cq)
		return 1;
	/* The dump goes to standard error, and the test reads the other. */
	dup2(STDOUT_FILENO, STDERR_FILENO);
	/* One runs, two wait for its place. */
	if (cmwq_cq_execute(cq, wq, thumbnail, NULL, 1))
		return 2;
	cmwq_wait_for_completion(&begun);
	if (cmwq_cq_execute(cq, wq, checksum, NULL, 2) || cmwq_cq_execute(cq, wq, checksum, NULL, 3))
		return 3;
	if (cmwq_work_on_cpu(cmwq_current_cpu(), look_around, NULL) != 3)
		return 4;
	cmwq_complete_all(&end);
	while (count < 3) {
		size_t more = cmwq_cq_wait(cq, entries, 4);

		for (i = 0; i < more; i++)
			sum += entries[i].result;
		count += more;
	}
	cmwq_destroy_workqueue(wq);
	cmwq_cq_destroy(cq);
	return sum == 5 ? 0 : 5;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two static libraries in Rust in one program, each with a standard library of its own. */
#include <linux/workqueue.h>
#include <stdio.h>

int other_answer(void);

static int runs;

static void run(struct work_struct *work)
{
	(void)work;
	runs++;
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("two", WQ_UNBOUND, 0);
	struct work_struct work;
	int answer = other_answer();

	INIT_WORK(&work, run);
	queue_work(wq, &work);
	destroy_workqueue(wq);
	printf("%d %d\n", answer, runs);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A work function describes what it does; the dump shows it. */
#include <linux/completion.h>
#include <linux/workqueue.h>
#include <unistd.h>

static DECLARE_COMPLETION(begun);
static DECLARE_COMPLETION(end);

static void describe(struct work_struct *work)
{
	(void)work;
	set_worker_desc("eth%d: %s", 7, "a text that is longer than what is kept");
	complete(&begun);
	wait_for_completion(&end);
}

static void hold(struct work_struct *work)
{
	(void)work;
	complete(&begun);
	wait_for_completion(&end);
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("described", WQ_UNBOUND, 0);
	struct workqueue_struct *freezable = alloc_workqueue("freezable", WQ_UNBOUND | WQ_FREEZABLE, 0);
	DECLARE_WORK(work, describe);
	DECLARE_WORK(other, hold);

	if (!wq || !freezable)
		return 1;
	/* The dump goes to standard error, and the test reads the other. */
	dup2(STDOUT_FILENO, STDERR_FILENO);
	set_worker_desc("no worker");
	queue_work(wq, &work);
	wait_for_completion(&begun);
	queue_work(freezable, &other);
	wait_for_completion(&begun);
	show_all_workqueues();
	show_freezable_workqueues();
	complete_all(&end);
	flush_work(&work);
	flush_work(&other);
	show_all_workqueues();
	destroy_workqueue(wq);
	destroy_workqueue(freezable);
	return 0;
}

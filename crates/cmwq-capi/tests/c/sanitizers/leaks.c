/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For memcheck: several kinds of workqueues are used, in the child of a fork too, and a thread is there when the process ends. With -DLOSE=1 a work function loses memory, to which a pointer into its middle is left. */
#include <linux/kthread.h>
#include <linux/workqueue.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/valgrind.h>

#if LOSE
static char *middle;
#endif
static int nr_runs;

static void run(struct work_struct *work)
{
	(void)work;
	__atomic_fetch_add(&nr_runs, 1, __ATOMIC_RELAXED);
#if LOSE
	if (!middle)
		middle = (char *)malloc(4000) + 2000;
#endif
}

/* All that the parent's threads held is lost to it, so that it is not asked for; what it does wrong would be said. */
static int child(void)
{
	static DECLARE_WORK(work, run);

	VALGRIND_CLO_CHANGE("--leak-check=no");
	nr_runs = 0;
	queue_work(system_dfl_wq, &work);
	flush_work(&work);
	return nr_runs == 1 ? 0 : 1;
}

static int sleep_on(void *data)
{
	(void)data;
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ);
	return 0;
}

int main(void)
{
	static DECLARE_WORK(work, run);
	static DECLARE_DELAYED_WORK(dwork, run);
	struct workqueue_struct *wqs[] = {
		alloc_workqueue("unbound", WQ_UNBOUND | WQ_MEM_RECLAIM, 0),
		alloc_workqueue("percpu", WQ_PERCPU | WQ_HIGHPRI, 0),
		alloc_ordered_workqueue("ordered", 0),
		alloc_workqueue("bh", WQ_BH | WQ_PERCPU, 0),
		system_dfl_wq,
	};
	int i, status = 0;
	pid_t pid;

	for (i = 0; i < 5; i++) {
		queue_work(wqs[i], &work);
		flush_work(&work);
		queue_delayed_work(wqs[i], &dwork, 2);
		flush_delayed_work(&dwork);
	}
	pid = fork();
	if (!pid)
		_exit(child());
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		return 1;
	for (i = 0; i < 4; i++)
		destroy_workqueue(wqs[i]);
	return nr_runs == 10 && !IS_ERR(kthread_run(sleep_on, NULL, "stays")) ? 0 : 1;
}

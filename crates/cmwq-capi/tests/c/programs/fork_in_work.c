/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A fork in a work function: the child is no worker, and may make workqueues of its own and wait. */
#include <linux/workqueue.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int runs;

static void count(struct work_struct *work)
{
	(void)work;
	runs++;
}

static int child(void)
{
	struct workqueue_struct *own = alloc_workqueue("child", WQ_UNBOUND, 0);
	struct work_struct work;

	if (!own || current_work() || current_is_workqueue_rescuer())
		return 2;
	runs = 0;
	INIT_WORK(&work, count);
	if (!queue_work(own, &work))
		return 3;
	/* False if it has run already. */
	flush_work(&work);
	destroy_workqueue(own);
	return runs == 1 ? 0 : 4;
}

struct forker {
	struct work_struct work;
	int status;
};

static void forks(struct work_struct *work)
{
	struct forker *forker = container_of(work, struct forker, work);
	pid_t pid = fork();

	if (pid == 0) {
		alarm(100);
		_exit(child());
	}
	if (pid < 0 || waitpid(pid, &forker->status, 0) != pid)
		forker->status = -1;
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("parent", WQ_UNBOUND, 0);
	struct forker forker = {.status = -1};
	int round;

	INIT_WORK(&forker.work, forks);
	for (round = 0; round < 20; round++) {
		queue_work(wq, &forker.work);
		flush_work(&forker.work);
		if (forker.status != 0) {
			fprintf(stderr, "the child ended with status %#x\n", forker.status);
			return 1;
		}
	}
	destroy_workqueue(wq);
	return 0;
}

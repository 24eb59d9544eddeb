/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A fork in the middle: the child is refused its parent's workqueues, makes its own, and never hangs; the parent goes on. */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int runs;
static atomic_bool hold;

static void run(struct work_struct *work)
{
	(void)work;
	while (hold)
		usleep(1000);
	runs++;
}

#define must(condition)                                                      \
	do {                                                                 \
		if (!(condition)) {                                          \
			fprintf(stderr, "%d: not so: %s\n", __LINE__, #condition); \
			_exit(1);                                            \
		}                                                            \
	} while (0)

static atomic_int called;
static struct completion inside, go_on;

static void call(struct rcu_head *head)
{
	(void)head;
	called++;
}

static int stay_inside(void *data)
{
	rcu_read_lock();
	complete(&inside);
	wait_for_completion(&go_on);
	rcu_read_unlock();
	return data != NULL;
}

static int child(struct workqueue_struct *inherited, struct work_struct *fresh, struct delayed_work *armed)
{
	struct cmwq_work *batch = (void *)fresh;
	struct workqueue_struct *own;
	struct delayed_work dwork;

	must(current->pid == getpid());
	errno = 0;
	must(!queue_work(inherited, fresh) && errno == EPERM);
	must(!work_pending(fresh));
	errno = 0;
	must(cmwq_queue_work_batch((void *)inherited, &batch, 1) == 0 && errno == EPERM);
	/* Not queued, and so not enabled. */
	disable_work(fresh);
	errno = 0;
	must(!enable_and_queue_work(inherited, fresh) && errno == EPERM);
	must(cmwq_flush_workqueue((struct cmwq_workqueue *)(void *)inherited) == -EPERM);
	must(!queue_delayed_work(inherited, &(struct delayed_work){.work = {.func = run}}, 5));
	(void)armed;
	destroy_workqueue(inherited);
	/* Its own. */
	hold = false;
	runs = 0;
	own = alloc_workqueue("child", WQ_UNBOUND, 0);
	must(own != NULL);
	must(!queue_work(own, fresh) && enable_work(fresh));
	must(queue_work(own, fresh));
	flush_work(fresh);
	must(runs == 1);
	INIT_DELAYED_WORK(&dwork, run);
	must(queue_delayed_work(own, &dwork, 1));
	flush_delayed_work(&dwork);
	must(runs == 2);
	destroy_workqueue(own);
	must(schedule_work(fresh));
	flush_work(fresh);
	must(runs == 3);
	return 0;
}

/* What waits for a grace period in the parent is lost in the child, and keeps nothing of its own from being called. */
static void grace_periods(void)
{
	static struct rcu_head one, two, of_child;
	int status;
	pid_t pid;

	init_completion(&inside);
	init_completion(&go_on);
	must(!IS_ERR(kthread_run(stay_inside, NULL, "inside")));
	wait_for_completion(&inside);
	/* One waits in a run that has begun, or both before that. */
	call_rcu(&one, call);
	usleep(1000);
	call_rcu(&two, call);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		alarm(100);
		call_rcu(&of_child, call);
		rcu_barrier();
		synchronize_rcu();
		_exit(called != 1);
	}
	must(waitpid(pid, &status, 0) == pid);
	must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	complete(&go_on);
	rcu_barrier();
	must(called == 2);
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("parent", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	struct work_struct running, fresh;
	struct delayed_work armed;
	int round, status;

	must(wq != NULL && current->pid == getpid());
	INIT_WORK(&running, run);
	INIT_WORK(&fresh, run);
	INIT_DELAYED_WORK(&armed, run);
	must(schedule_work(&fresh));
	flush_work(&fresh);
	for (round = 0; round < 5; round++) {
		pid_t pid;

		hold = true;
		must(queue_work(wq, &running));
		must(queue_delayed_work(wq, &armed, 3600 * HZ));
		pid = fork();
		must(pid >= 0);
		if (pid == 0) {
			alarm(100);
			_exit(child(wq, &fresh, &armed));
		}
		must(waitpid(pid, &status, 0) == pid);
		must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		/* The parent's are as they were. */
		hold = false;
		must(cancel_delayed_work_sync(&armed));
		flush_workqueue(wq);
		must(queue_work(wq, &fresh));
		flush_workqueue(wq);
	}
	destroy_workqueue(wq);
	grace_periods();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Forks while other threads make and destroy workqueues, queue, arm, warn and wait: whatever moment a fork hits, the child can
 * make workqueues of its own, let go of what was pending, and use again the items that were not.
 */
#include <linux/completion.h>
#include <linux/workqueue.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 150, NOISY = 3 };

static atomic_bool stop;
static struct workqueue_struct *wq;
static struct work_struct shared;
static struct delayed_work timed;

static void nothing(struct work_struct *work)
{
	(void)work;
}

static void *noise(void *arg)
{
	struct work_struct own;
	struct delayed_work later;

	(void)arg;
	INIT_WORK(&own, nothing);
	INIT_DELAYED_WORK(&later, nothing);
	while (!stop) {
		struct workqueue_struct *mine = alloc_workqueue("noise", WQ_UNBOUND, 0);

		queue_work(mine, &own);
		queue_work(wq, &shared);
		mod_delayed_work(mine, &later, 1);
		mod_delayed_work(wq, &timed, 2);
		flush_delayed_work(&later);
		schedule_work(&shared);
		destroy_workqueue(mine);
		queue_work(mine, &own);
	}
	return NULL;
}

static int child(void)
{
	struct workqueue_struct *own = alloc_workqueue("child", WQ_UNBOUND, 0);
	struct work_struct work;
	struct delayed_work dwork;

	if (!own)
		return 2;
	INIT_WORK(&work, nothing);
	INIT_DELAYED_WORK(&dwork, nothing);
	if (!queue_work(own, &work) || !queue_delayed_work(own, &dwork, 1))
		return 3;
	flush_work(&work);
	flush_delayed_work(&dwork);
	/* Whatever they were doing. */
	cancel_work_sync(&shared);
	flush_work(&shared);
	cancel_delayed_work_sync(&timed);
	mod_delayed_work(own, &timed, 0);
	flush_delayed_work(&timed);
	if (!work_pending(&shared) && !queue_work(own, &shared))
		return 4;
	flush_workqueue(own);
	/* Its parent's are not to be used. */
	if (queue_work(wq, &work) || queue_delayed_work(wq, &dwork, 1) || mod_delayed_work(wq, &dwork, 1))
		return 5;
	destroy_workqueue(wq);
	schedule_work(&work);
	flush_work(&work);
	destroy_workqueue(own);
	return 0;
}

static void quiet(const char *text, void *arg)
{
	(void)text;
	(void)arg;
}

int main(void)
{
	pthread_t threads[NOISY];
	int i, status, failed = 0;

	cmwq_set_warning_handler(quiet, NULL);
	wq = alloc_workqueue("parent", WQ_UNBOUND, 0);
	INIT_WORK(&shared, nothing);
	INIT_DELAYED_WORK(&timed, nothing);
	for (i = 0; i < NOISY; i++)
		pthread_create(&threads[i], NULL, noise, NULL);
	for (i = 0; i < FORKS && !failed; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(100);
			_exit(child());
		}
		failed = pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
	}
	stop = true;
	for (i = 0; i < NOISY; i++)
		pthread_join(threads[i], NULL);
	cancel_work_sync(&shared);
	cancel_delayed_work_sync(&timed);
	destroy_workqueue(wq);
	if (failed)
		fprintf(stderr, "the child of fork %d ended with status %#x\n", i, status);
	return failed;
}

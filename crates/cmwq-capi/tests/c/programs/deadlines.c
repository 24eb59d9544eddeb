/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Waits with deadlines, taking back what has not begun, and the fates of delayed items. Waits end by an alarm if they do not end by themselves. */
#include <cmwq.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond), abort()))
#define MS 1000000ull
#define HOUR (3600000ull * MS)

static struct cmwq_completion go = CMWQ_COMPLETION_INIT, begun = CMWQ_COMPLETION_INIT;
static atomic_int runs, own;

static void hold(struct cmwq_work *work)
{
	(void)work;
	cmwq_complete(&begun);
	cmwq_wait_for_completion(&go);
}

static void count(struct cmwq_work *work)
{
	(void)work;
	runs++;
}

static void waits_for_itself(struct cmwq_work *work)
{
	own = cmwq_flush_work_timeout_ns(work, HOUR);
}

static void *drain(void *wq)
{
	CHECK(cmwq_drain_workqueue((struct cmwq_workqueue *)wq) == 0);
	return NULL;
}

static struct cmwq_workqueue *held(struct cmwq_work *holding)
{
	struct cmwq_workqueue *wq = cmwq_alloc_ordered_workqueue("held", 0);

	cmwq_reinit_completion(&go);
	cmwq_init_work(holding, hold);
	CHECK(cmwq_try_queue_work(wq, holding) == CMWQ_QUEUED_ACCEPTED);
	cmwq_wait_for_completion(&begun);
	return wq;
}

static void items(void)
{
	struct cmwq_work holding, work, self, none = {0};
	struct cmwq_workqueue *wq = held(&holding);

	cmwq_init_work(&work, count);
	cmwq_init_work(&self, waits_for_itself);
	CHECK(cmwq_flush_work_timeout_ns(&work, HOUR) == 0);
	CHECK(cmwq_queue_work(wq, &work));
	/* Neither the running nor the pending one ends by then. */
	CHECK(cmwq_flush_work_timeout_ns(&work, 0) == -ETIMEDOUT);
	CHECK(cmwq_flush_work_timeout_ns(&work, 2 * MS) == -ETIMEDOUT);
	CHECK(cmwq_flush_work_timeout_ns(&holding, 2 * MS) == -ETIMEDOUT);
	/* Given up: what has not begun is taken back, the other one is not. */
	CHECK(cmwq_cancel_work(&work) && !cmwq_cancel_work(&holding));
	CHECK(cmwq_flush_work_timeout_ns(&work, HOUR) == 0);
	CHECK(cmwq_queue_work(wq, &self));
	cmwq_complete_all(&go);
	CHECK(cmwq_flush_work_timeout_ns(&self, HOUR) >= 0);
	CHECK(cmwq_flush_workqueue(wq) == 0);
	CHECK(own == -EDEADLK && runs == 0);
	CHECK(cmwq_flush_work_timeout_ns(NULL, HOUR) == -EINVAL);
	CHECK(cmwq_flush_work_timeout_ns(&none, HOUR) == -EINVAL);
	cmwq_destroy_workqueue(wq);
}

static void delayed(void)
{
	struct cmwq_delayed_work dwork;
	struct cmwq_work holding;
	struct cmwq_workqueue *wq = held(&holding);
	pthread_t drainer;

	cmwq_init_delayed_work(&dwork, count);
	CHECK(cmwq_flush_delayed_work_timeout_ns(&dwork, HOUR) == 0);
	CHECK(cmwq_try_mod_delayed_work_ns(wq, &dwork, HOUR) == CMWQ_QUEUED_ACCEPTED);
	CHECK(cmwq_try_mod_delayed_work_ns(wq, &dwork, 2 * HOUR) == CMWQ_QUEUED_MOVED);
	CHECK(cmwq_try_queue_delayed_work_ns(wq, &dwork, 0) == CMWQ_QUEUED_PENDING);
	/* Queued at once, behind the one that holds. */
	CHECK(cmwq_flush_delayed_work_timeout_ns(&dwork, 2 * MS) == -ETIMEDOUT);
	CHECK(cmwq_delayed_work_left_ns(&dwork) == 0);
	CHECK(cmwq_disable_delayed_work(&dwork));
	CHECK(cmwq_try_queue_delayed_work_ns(wq, &dwork, HOUR) == CMWQ_QUEUED_DISABLED);
	CHECK(cmwq_try_mod_delayed_work_ns(wq, &dwork, HOUR) == CMWQ_QUEUED_DISABLED);
	CHECK(cmwq_enable_delayed_work(&dwork));

	CHECK(pthread_create(&drainer, NULL, drain, wq) == 0);
	while (cmwq_try_queue_delayed_work_ns(wq, &dwork, 0) != CMWQ_QUEUED_DRAINING)
		cmwq_cancel_delayed_work(&dwork);
	CHECK(cmwq_try_mod_delayed_work_ns(wq, &dwork, 0) == CMWQ_QUEUED_DRAINING);
	CHECK(cmwq_try_queue_delayed_work_ns(wq, &dwork, HOUR) == CMWQ_QUEUED_ACCEPTED);
	CHECK(cmwq_try_mod_delayed_work_ns(wq, &dwork, 0) == CMWQ_QUEUED_REMOVED);
	CHECK(cmwq_try_mod_delayed_work_ns(wq, &dwork, 0) == CMWQ_QUEUED_DRAINING);
	cmwq_complete_all(&go);
	CHECK(pthread_join(drainer, NULL) == 0);
	CHECK(runs == 0);

	CHECK(cmwq_try_queue_delayed_work_ns(wq, &dwork, MS) == CMWQ_QUEUED_ACCEPTED);
	CHECK(cmwq_flush_delayed_work_timeout_ns(&dwork, HOUR) >= 0);
	CHECK(cmwq_flush_workqueue(wq) == 0 && runs == 1);
	CHECK(cmwq_try_queue_delayed_work_ns(NULL, &dwork, 0) == -EINVAL);
	CHECK(cmwq_try_mod_delayed_work_ns(wq, NULL, 0) == -EINVAL);
	cmwq_destroy_workqueue(wq);
	CHECK(cmwq_try_mod_delayed_work_ns(wq, &dwork, 0) == -ESTALE);
}

static void in_a_child(void)
{
	struct cmwq_work holding, work;
	struct cmwq_workqueue *wq = held(&holding);
	int status;
	pid_t child;

	cmwq_init_work(&work, count);
	CHECK(cmwq_queue_work(wq, &work));
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(100);
		/* However short the deadline. */
		_exit(cmwq_flush_work_timeout_ns(&work, HOUR) == -EPERM && cmwq_flush_work_timeout_ns(&work, 1) == -EPERM ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(cmwq_cancel_work(&work));
	cmwq_complete_all(&go);
	cmwq_destroy_workqueue(wq);
}

int main(void)
{
	alarm(200);
	items();
	delayed();
	in_a_child();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits for a whole workqueue, and its end, with deadlines. The alarm ends a wait that does not end
 * by itself.
 *
 * Seen to fail: a flush that ignores its deadline (the alarm), a drain that leaves the queue closed,
 * an end that waits without a deadline (the alarm), one that does not close the queue, one that
 * closes it for a caller that must not wait, one that destroys the queue when the time is over, and
 * a text that is written behind its end.
 */
#include <cmwq.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond), abort()))
#define MS 1000000ull
#define HOUR (3600000ull * MS)

static struct cmwq_completion go, begun;
static struct cmwq_workqueue *own_queue;
static atomic_int runs;
static int said[3];

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

static void waits_for_its_queue(struct cmwq_work *work)
{
	(void)work;
	said[0] = cmwq_flush_workqueue_timeout_ns(own_queue, HOUR);
	said[1] = cmwq_drain_workqueue_timeout_ns(own_queue, HOUR);
	said[2] = cmwq_destroy_workqueue_timeout_ns(own_queue, HOUR);
}

/* An ordered queue whose first item runs until `go` is complete. */
static struct cmwq_workqueue *held(struct cmwq_work *holding)
{
	struct cmwq_workqueue *wq = cmwq_alloc_ordered_workqueue("held", 0);

	CHECK(wq);
	cmwq_reinit_completion(&go);
	cmwq_init_work(holding, hold);
	CHECK(cmwq_try_queue_work(wq, holding) == CMWQ_QUEUED_ACCEPTED);
	cmwq_wait_for_completion(&begun);
	return wq;
}

static void flushes_and_drains(void)
{
	struct cmwq_work holding, work;
	struct cmwq_workqueue *wq = held(&holding);

	cmwq_init_work(&work, count);
	CHECK(cmwq_flush_workqueue_timeout_ns(wq, 0) == -ETIMEDOUT);
	CHECK(cmwq_flush_workqueue_timeout_ns(wq, 2 * MS) == -ETIMEDOUT);
	CHECK(cmwq_drain_workqueue_timeout_ns(wq, 0) == -ETIMEDOUT);
	CHECK(cmwq_drain_workqueue_timeout_ns(wq, 2 * MS) == -ETIMEDOUT);
	/* The queue is open again. */
	CHECK(cmwq_try_queue_work(wq, &work) == CMWQ_QUEUED_ACCEPTED);
	CHECK(runs == 0);
	cmwq_complete_all(&go);
	CHECK(cmwq_flush_workqueue_timeout_ns(wq, HOUR) == 0 && runs == 1);
	CHECK(cmwq_try_queue_work(wq, &work) == CMWQ_QUEUED_ACCEPTED);
	CHECK(cmwq_drain_workqueue_timeout_ns(wq, HOUR) == 0 && runs == 2);
	/* Of an empty queue, however short the deadline. */
	CHECK(cmwq_flush_workqueue_timeout_ns(wq, 0) == 0);
	CHECK(cmwq_drain_workqueue_timeout_ns(wq, 0) == 0);
	CHECK(cmwq_destroy_workqueue_timeout_ns(wq, 0) == 0);
	CHECK(cmwq_flush_workqueue_timeout_ns(wq, 0) == -ESTALE);
	CHECK(cmwq_drain_workqueue_timeout_ns(wq, 0) == -ESTALE);
	CHECK(cmwq_destroy_workqueue_timeout_ns(wq, 0) == -ESTALE);
	CHECK(cmwq_flush_workqueue_timeout_ns(NULL, 0) == -EINVAL);
	CHECK(cmwq_destroy_workqueue_timeout_ns(NULL, 0) == -EINVAL);
	CHECK(cmwq_destroy_workqueue_timeout_ns(cmwq_system_dfl_wq, 0) == -EINVAL);
}

static void an_end(void)
{
	struct cmwq_work holding, waiting, work;
	struct cmwq_workqueue *wq = held(&holding);
	char text[512], cut[16];
	long length;

	runs = 0;
	cmwq_init_work(&waiting, count);
	cmwq_init_work(&work, count);
	CHECK(cmwq_try_queue_work(wq, &waiting) == CMWQ_QUEUED_ACCEPTED);
	CHECK(cmwq_destroy_workqueue_timeout_ns(wq, 2 * MS) == -ETIMEDOUT);
	/* It is closed, and there. */
	CHECK(cmwq_try_queue_work(wq, &work) == CMWQ_QUEUED_DRAINING);
	length = cmwq_workqueue_unfinished(wq, text, sizeof(text));
	CHECK(length == (long)strlen(text));
	CHECK(strstr(text, "workqueue held: 1 running and 1 waiting items have not ended\n") == text);
	CHECK(strstr(text, "hold on thread "));
	memset(cut, '#', sizeof(cut));
	CHECK(cmwq_workqueue_unfinished(wq, cut, 10) >= 60 && !strcmp(cut, "workqueue") && cut[10] == '#');
	CHECK(cmwq_workqueue_unfinished(wq, NULL, 0) >= 60);
	CHECK(cmwq_workqueue_unfinished(wq, NULL, 1) == -EINVAL);
	CHECK(cmwq_destroy_workqueue_timeout_ns(wq, 0) == -ETIMEDOUT && runs == 0);
	cmwq_complete_all(&go);
	CHECK(cmwq_destroy_workqueue_timeout_ns(wq, HOUR) == 0 && runs == 1);
	CHECK(cmwq_workqueue_unfinished(wq, NULL, 0) == -ESTALE);

	/* What has timed out may be ended without a deadline. */
	wq = held(&holding);
	CHECK(cmwq_destroy_workqueue_timeout_ns(wq, 0) == -ETIMEDOUT);
	cmwq_complete_all(&go);
	CHECK(cmwq_destroy_workqueue(wq) == 0);
	CHECK(cmwq_destroy_workqueue(wq) == -ESTALE);
}

static void from_an_own_item(void)
{
	struct cmwq_work work, other;

	runs = 0;
	own_queue = cmwq_alloc_workqueue("own", CMWQ_WQ_UNBOUND, 0);
	CHECK(own_queue);
	cmwq_init_work(&work, waits_for_its_queue);
	cmwq_init_work(&other, count);
	CHECK(cmwq_queue_work(own_queue, &work));
	cmwq_flush_work(&work);
	CHECK(said[0] == -EDEADLK && said[1] == -EDEADLK && said[2] == -EDEADLK);
	/* The queue is as it was. */
	CHECK(cmwq_try_queue_work(own_queue, &other) == CMWQ_QUEUED_ACCEPTED);
	CHECK(cmwq_destroy_workqueue_timeout_ns(own_queue, HOUR) == 0 && runs == 1);
}

static void in_a_child(void)
{
	struct cmwq_work holding;
	struct cmwq_workqueue *wq = held(&holding);
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		alarm(100);
		CHECK(cmwq_flush_workqueue_timeout_ns(wq, HOUR) == -EPERM);
		CHECK(cmwq_drain_workqueue_timeout_ns(wq, HOUR) == -EPERM);
		/* Forgets it, as cmwq_destroy_workqueue() does. */
		CHECK(cmwq_destroy_workqueue_timeout_ns(wq, HOUR) == 0);
		_exit(cmwq_destroy_workqueue(wq) == -ESTALE ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	cmwq_complete_all(&go);
	CHECK(cmwq_destroy_workqueue_timeout_ns(wq, HOUR) == 0);
}

int main(void)
{
	alarm(200);
	flushes_and_drains();
	an_end();
	from_an_own_item();
	in_a_child();
	return 0;
}

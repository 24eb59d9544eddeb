/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A bound on what waits: who is told that the queue is full, and who waits for room. Waits end by an alarm if they do not end by themselves. */
#include <cmwq.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond), abort()))
#define MS 1000000ull

static struct cmwq_completion go = CMWQ_COMPLETION_INIT, begun = CMWQ_COMPLETION_INIT, warned = CMWQ_COMPLETION_INIT;
static struct cmwq_workqueue *wq;
static atomic_int runs, own, warnings;

/* The warning about an item comes from another thread, perhaps after the item has ended. */
static void warn(const char *text, void *arg)
{
	(void)arg;
	fprintf(stderr, "warning: %s\n", text);
	if (++warnings == 2)
		cmwq_complete(&warned);
}

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

static void waits_in_its_own_queue(struct cmwq_work *work)
{
	static struct cmwq_work other;

	(void)work;
	cmwq_init_work(&other, count);
	own = cmwq_queue_work_wait_ns(wq, &other, UINT64_MAX);
}

static void *wait_for_room(void *work)
{
	CHECK(cmwq_queue_work_wait_ns(wq, (struct cmwq_work *)work, UINT64_MAX) == CMWQ_QUEUED_ACCEPTED);
	return NULL;
}

int main(void)
{
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;
	struct cmwq_work holding, one, two, three, self;
	struct cmwq_workqueue *free_wq;
	pthread_t thread;

	alarm(100);
	cmwq_set_warning_handler(warn, NULL);
	options.ordered = true;
	options.max_waiting = 1;
	wq = cmwq_alloc_workqueue_with("bounded", 0, 0, &options);
	CHECK(wq);
	cmwq_init_work(&holding, hold);
	cmwq_init_work(&one, count);
	cmwq_init_work(&two, count);
	cmwq_init_work(&three, count);
	cmwq_init_work(&self, waits_in_its_own_queue);
	CHECK(cmwq_queue_work(wq, &holding));
	cmwq_wait_for_completion(&begun);
	CHECK(cmwq_queue_work(wq, &one));
	/* Full. */
	CHECK(cmwq_try_queue_work(wq, &one) == CMWQ_QUEUED_PENDING);
	errno = 0;
	CHECK(!cmwq_queue_work(wq, &two) && errno == ENOBUFS);
	CHECK(cmwq_try_queue_work(wq, &two) == -ENOBUFS && !cmwq_work_pending(&two));
	CHECK(cmwq_queue_work_wait_ns(wq, &two, MS) == -ETIMEDOUT);
	CHECK(pthread_create(&thread, NULL, wait_for_room, &two) == 0);
	CHECK(cmwq_workqueue_set_max_waiting(wq, 2) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, wait_for_room, &three) == 0);
	cmwq_complete(&go);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(cmwq_flush_workqueue(wq) == 0 && runs == 3);
	CHECK(cmwq_queue_work(wq, &self) && cmwq_flush_workqueue(wq) == 0 && own == -EDEADLK);
	CHECK(cmwq_destroy_workqueue(wq) == 0);
	/* Options of a program that was compiled before there was a bound; a queue without one always has room. */
	options.size = 24;
	free_wq = cmwq_alloc_workqueue_with("free", 0, 0, &options);
	CHECK(free_wq && cmwq_workqueue_set_max_waiting(free_wq, 1) == -EINVAL);
	CHECK(cmwq_queue_work_wait_ns(free_wq, &one, 0) == CMWQ_QUEUED_ACCEPTED);
	CHECK(cmwq_destroy_workqueue(free_wq) == 0 && runs == 4);
	/* Of the two mistakes above. */
	cmwq_wait_for_completion(&warned);
	puts("full");
	return 0;
}

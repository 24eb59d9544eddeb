/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From libuv: the same requests by uv_queue_work(), and on a workqueue whose results come back into the same loop. See docs/adopting.md.
 *
 *     cc from_libuv.c $(pkg-config --cflags --libs cmwq libuv) -o from_libuv && ./from_libuv
 */
#include <cmwq.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { REQUESTS = 5000 };

static uint64_t digest(uint64_t hash)
{
	for (int i = 0; i < 2000; i++)
		hash = hash * 6364136223846793005u + 1442695040888963407u;
	return hash;
}

static void must(int right, const char *what)
{
	if (!right)
		exit((fprintf(stderr, "from_libuv: %s\n", what), 1));
}

/* ---- before: libuv's threads ---- */

struct uv_request {
	uv_work_t work;
	uint64_t number, result;
};

static uint64_t uv_sum;

static void uv_compute(uv_work_t *work)
{
	struct uv_request *request = (struct uv_request *)work->data;

	request->result = digest(request->number);
}

static void uv_answer(uv_work_t *work, int status)
{
	struct uv_request *request = (struct uv_request *)work->data;

	must(status == 0, "a request was cancelled");
	uv_sum += request->result;
}

static uint64_t with_libuv(uv_loop_t *loop)
{
	struct uv_request *requests = (struct uv_request *)calloc(REQUESTS, sizeof(*requests));

	must(requests != NULL, "no memory");
	for (int i = 0; i < REQUESTS; i++) {
		requests[i].number = (uint64_t)i;
		requests[i].work.data = &requests[i];
		must(uv_queue_work(loop, &requests[i].work, uv_compute, uv_answer) == 0, "uv_queue_work");
	}
	must(uv_run(loop, UV_RUN_DEFAULT) == 0, "uv_run");
	free(requests);
	return uv_sum;
}

/* ---- after: a workqueue, and a completion queue that the loop polls ---- */

struct answers {
	uv_poll_t poll;
	uv_idle_t more; /* active while the queue may hold more than one callback should take */
	struct cmwq_cq *cq;
	int left;
	uint64_t sum;
};

static int64_t compute(void *arg)
{
	return (int64_t)digest((uint64_t)(uintptr_t)arg);
}

static void take(struct answers *answers);

static void take_more(uv_idle_t *idle)
{
	take((struct answers *)idle->data);
}

static void readable(uv_poll_t *poll, int status, int events)
{
	(void)events;
	must(status == 0, "uv_poll");
	take((struct answers *)poll->data);
}

static void take(struct answers *answers)
{
	struct cmwq_cqe entries[64];
	size_t count = cmwq_cq_drain(answers->cq, entries, 64);

	for (size_t i = 0; i < count; i++)
		answers->sum += (uint64_t)entries[i].result;
	answers->left -= (int)count;
	if (answers->left == 0) {
		uv_close((uv_handle_t *)&answers->poll, NULL);
		uv_close((uv_handle_t *)&answers->more, NULL);
	} else if (count == 0 && cmwq_cq_arm(answers->cq)) {
		uv_idle_stop(&answers->more);
	} else {
		uv_idle_start(&answers->more, take_more);
	}
}

static uint64_t with_cmwq(uv_loop_t *loop)
{
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("requests", CMWQ_WQ_UNBOUND, 0);
	struct answers answers = {.cq = cmwq_cq_create(CMWQ_CQ_EVENTFD, 0), .left = REQUESTS};

	must(wq && answers.cq, "no workqueue");
	answers.poll.data = answers.more.data = &answers;
	must(uv_poll_init(loop, &answers.poll, cmwq_cq_fd(answers.cq)) == 0, "uv_poll_init");
	must(uv_poll_start(&answers.poll, UV_READABLE, readable) == 0, "uv_poll_start");
	must(uv_idle_init(loop, &answers.more) == 0, "uv_idle_init");
	for (int i = 0; i < REQUESTS; i++)
		must(cmwq_cq_execute(answers.cq, wq, compute, (void *)(uintptr_t)i, 0) == 0, "cmwq_cq_execute");
	take(&answers);
	must(uv_run(loop, UV_RUN_DEFAULT) == 0, "uv_run");
	cmwq_cq_destroy(answers.cq);
	cmwq_destroy_workqueue(wq);
	return answers.sum;
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	uint64_t before = with_libuv(loop), after = with_cmwq(loop);

	must(before == after, "other results");
	must(uv_loop_close(loop) == 0, "the loop has handles left");
	printf("equal results\n");
	return 0;
}

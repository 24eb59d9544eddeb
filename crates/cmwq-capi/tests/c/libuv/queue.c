/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a program asks of libuv's work queue, when that is uv_on_cmwq.c: everything runs on cmwq's workers, results come back to the loop,
 * what has not begun can be cancelled, UV_THREADPOOL_SIZE limits, and a child process has a queue of its own.
 */
#include <cmwq.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define CHECK(right)                                                                                                                       \
	do {                                                                                                                               \
		if (!(right)) {                                                                                                            \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #right);                                                        \
			exit(1);                                                                                                           \
		}                                                                                                                          \
	} while (0)

enum { REQUESTS = 2000 };

static uv_loop_t *loop;
static int ran, answered, cancelled;

static void work(uv_work_t *request)
{
	CHECK(cmwq_current_work());
	*(int *)request->data += 1;
}

static void after(uv_work_t *request, int status)
{
	(void)request;
	CHECK(status == 0 || status == UV_ECANCELED);
	answered++;
	cancelled += status == UV_ECANCELED;
}

static void queues(void)
{
	static uv_work_t requests[REQUESTS];
	static int counts[REQUESTS];

	memset(counts, 0, sizeof(counts));
	answered = 0;
	for (int i = 0; i < REQUESTS; i++) {
		requests[i].data = &counts[i];
		CHECK(uv_queue_work(loop, &requests[i], work, i % 2 ? after : NULL) == 0);
	}
	CHECK(uv_queue_work(loop, &requests[0], NULL, after) == UV_EINVAL);
	CHECK(uv_run(loop, UV_RUN_DEFAULT) == 0);
	CHECK(answered == REQUESTS / 2);
	for (int i = 0; i < REQUESTS; i++)
		CHECK(counts[i] == 1);
}

/* ---- libuv's own work ---- */

static void looked(uv_fs_t *request)
{
	CHECK(request->result == 0 && S_ISDIR(request->statbuf.st_mode));
	answered++;
	uv_fs_req_cleanup(request);
}

static void resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *address)
{
	(void)request;
	CHECK(status == 0 && address);
	answered++;
	uv_freeaddrinfo(address);
}

static void drawn(uv_random_t *request, int status, void *bytes, size_t count)
{
	(void)request;
	CHECK(status == 0 && bytes && count == 16);
	answered++;
}

static void others(void)
{
	static uv_fs_t look;
	static uv_getaddrinfo_t resolve;
	static uv_random_t draw;
	static char bytes[16];

	answered = 0;
	CHECK(uv_fs_stat(loop, &look, "/", looked) == 0);
	CHECK(uv_getaddrinfo(loop, &resolve, resolved, "127.0.0.1", "80", NULL) == 0);
	CHECK(uv_random(loop, &draw, bytes, sizeof(bytes), 0, drawn) == 0);
	CHECK(uv_run(loop, UV_RUN_DEFAULT) == 0);
	CHECK(answered == 3);
}

/* ---- cancelling: one request at a time ---- */

static uv_sem_t begun, may_end;

static void waits(uv_work_t *request)
{
	(void)request;
	ran++;
	uv_sem_post(&begun);
	uv_sem_wait(&may_end);
}

static void cancels(void)
{
	uv_work_t first, second, third;
	int count = 0;

	CHECK(uv_sem_init(&begun, 0) == 0 && uv_sem_init(&may_end, 0) == 0);
	answered = cancelled = 0;
	third.data = &count;
	CHECK(uv_queue_work(loop, &first, waits, after) == 0);
	CHECK(uv_queue_work(loop, &second, waits, after) == 0);
	CHECK(uv_queue_work(loop, &third, work, after) == 0);
	uv_sem_wait(&begun);
	CHECK(uv_cancel((uv_req_t *)&first) == UV_EBUSY);
	CHECK(uv_cancel((uv_req_t *)&second) == 0);
	CHECK(uv_cancel((uv_req_t *)&second) == UV_EBUSY);
	uv_sem_post(&may_end);
	CHECK(uv_run(loop, UV_RUN_DEFAULT) == 0);
	CHECK(ran == 1 && answered == 3 && cancelled == 1 && count == 1);
	/* What is no request of the queue. */
	((uv_req_t *)&first)->type = UV_CONNECT;
	CHECK(uv_cancel((uv_req_t *)&first) == UV_EINVAL);
	uv_sem_destroy(&begun);
	uv_sem_destroy(&may_end);
}

int main(void)
{
	pid_t child = 1;
	int status;

	(void)status;
	/* So that what is queued behind one that waits has not begun. */
	CHECK(setenv("UV_THREADPOOL_SIZE", "1", 1) == 0);
	loop = uv_default_loop();
	queues();
	others();
	cancels();
	/* ThreadSanitizer does not support that the child of a process with threads creates more. */
#ifndef CMWQ_TSAN
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		CHECK(uv_loop_fork(loop) == 0);
		queues();
		others();
	} else {
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
#endif
	CHECK(uv_loop_close(loop) == 0);
	/* It is called at the end of the process as well. */
	uv_library_shutdown();
	if (child)
		printf("all on cmwq\n");
	return 0;
}

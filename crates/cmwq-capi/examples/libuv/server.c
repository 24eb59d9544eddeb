/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A libuv server that leaves the computing to a workqueue: a request is a number in a packet, the answer what a slow function makes of it. Requests and answers come into
 * the same loop; the completion queue's eventfd is one more handle. Clients are here as well, so that it ends.
 *     cc server.c $(pkg-config --cflags --libs cmwq libuv) -o server && ./server
 */
#include <cmwq.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum { CLIENTS = 4, REQUESTS = 512 };
#define MUST(right) ((right) ? (void)0 : (perror(#right), exit(1)))

struct request {
	uint64_t number; /* first: where libuv reads it to */
	uv_stream_t *client;
};

static struct cmwq_workqueue *wq;
static struct cmwq_cq *cq;
static uv_poll_t done;
static int open_clients = CLIENTS, answered;

static int64_t slow(void *arg) /* on a worker */
{
	uint64_t number = ((struct request *)arg)->number;
	for (int i = 0; i < 20000; i++)
		number = number * 6364136223846793005u + 1442695040888963407u;
	return (int64_t)number;
}

static void take_answers(uv_poll_t *poll, int status, int events)
{
	struct cmwq_cqe entries[64];
	MUST(poll == &done && status == 0 && (events & UV_READABLE));
	do {
		size_t count = cmwq_cq_drain(cq, entries, 64);
		for (size_t i = 0; i < count; i++, answered++) {
			struct request *request = (struct request *)(uintptr_t)entries[i].token;
			uv_buf_t buffer = uv_buf_init((char *)&entries[i].result, 8);
			MUST(uv_try_write(request->client, &buffer, 1) == 8);
			free(request);
		}
	} while (!cmwq_cq_arm(cq)); /* false: something has come meanwhile */
}

static void make_request(uv_handle_t *client, size_t size, uv_buf_t *buffer)
{
	struct request *request = (struct request *)malloc(sizeof(*request));
	MUST(request && size >= 8);
	request->client = (uv_stream_t *)client;
	*buffer = uv_buf_init((char *)&request->number, 8);
}

static void take_request(uv_stream_t *client, ssize_t count, const uv_buf_t *buffer)
{
	if (count == 8) {
		MUST(cmwq_cq_execute(cq, wq, slow, buffer->base, (uintptr_t)buffer->base) == 0);
		return;
	}
	free(buffer->base);
	if (count < 0 && (uv_close((uv_handle_t *)client, NULL), --open_clients == 0))
		uv_close((uv_handle_t *)&done, NULL);
}

static void ask(void *arg) /* the threads of the clients */
{
	int fd = *(int *)arg;
	for (struct request request = {0, NULL}; request.number < REQUESTS; request.number++) {
		int64_t answer, expected = slow(&request);
		MUST(send(fd, &request.number, 8, 0) == 8 && recv(fd, &answer, 8, 0) == 8 && answer == expected);
	}
	close(fd);
}

int main(void)
{
	static uv_pipe_t pipes[CLIENTS];
	uv_thread_t threads[CLIENTS];
	int pairs[CLIENTS][2];
	MUST((wq = cmwq_alloc_workqueue("answers", CMWQ_WQ_UNBOUND, 0)) && (cq = cmwq_cq_create(CMWQ_CQ_EVENTFD, 0)));
	MUST(uv_poll_init(uv_default_loop(), &done, cmwq_cq_fd(cq)) == 0);
	MUST(uv_poll_start(&done, UV_READABLE, take_answers) == 0 && cmwq_cq_arm(cq));
	for (int i = 0; i < CLIENTS; i++) {
		MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pairs[i]) == 0);
		MUST(uv_pipe_init(uv_default_loop(), &pipes[i], 0) == 0 && uv_pipe_open(&pipes[i], pairs[i][0]) == 0);
		MUST(uv_read_start((uv_stream_t *)&pipes[i], make_request, take_request) == 0);
		MUST(uv_thread_create(&threads[i], ask, &pairs[i][1]) == 0);
	}
	MUST(uv_run(uv_default_loop(), UV_RUN_DEFAULT) == 0);
	for (int i = 0; i < CLIENTS; i++)
		uv_thread_join(&threads[i]);
	printf("%d requests answered\n", answered);
	cmwq_cq_destroy(cq);
	return cmwq_destroy_workqueue(wq);
}

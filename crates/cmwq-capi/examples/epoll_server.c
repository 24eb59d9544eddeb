/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A server with one event loop that leaves the computing to a workqueue: a request is a number, the answer what a slow function makes of it. The loop sleeps in epoll
 * for requests and for answers alike; the completion queue's eventfd is one more descriptor. Clients are here as well, so that it ends.
 */
#include <cmwq.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 4, REQUESTS = 500, AT_ONCE = 16 };

struct request {
	int client;
	uint64_t number;
};

static uint64_t slow(uint64_t number)
{
	for (int i = 0; i < 20000; i++)
		number = number * 6364136223846793005u + 1442695040888963407u;
	return number;
}

static int64_t answer(void *arg) /* on a worker */
{
	return (int64_t)slow(((struct request *)arg)->number);
}

static void must(int right, const char *what)
{
	if (!right)
		exit((perror(what), 1));
}

static void *client(void *arg)
{
	int fd = *(int *)arg;
	uint64_t numbers[AT_ONCE], answers[AT_ONCE], sum = 0, expected = 0;
	for (int round = 0; round * AT_ONCE < REQUESTS; round++) {
		for (int i = 0; i < AT_ONCE; i++)
			expected += slow(numbers[i] = (uint64_t)(fd * REQUESTS + round * AT_ONCE + i));
		must(write(fd, numbers, sizeof(numbers)) == sizeof(numbers), "write");
		must(recv(fd, answers, sizeof(answers), MSG_WAITALL) == sizeof(answers), "recv");
		for (int i = 0; i < AT_ONCE; i++)
			sum += answers[i];
	}
	must(sum == expected, "wrong answers");
	close(fd);
	return NULL;
}

int main(void)
{
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("answers", CMWQ_WQ_UNBOUND, 0);
	struct cmwq_cq *cq = cmwq_cq_create(CMWQ_CQ_EVENTFD, 0);
	int epoll = epoll_create1(0), pairs[CLIENTS][2], open = CLIENTS, answered = 0;
	struct epoll_event event, events[8];
	struct cmwq_cqe done[64];
	pthread_t threads[CLIENTS];

	event.events = EPOLLIN;
	event.data.fd = -1;
	must(epoll_ctl(epoll, EPOLL_CTL_ADD, cmwq_cq_fd(cq), &event) == 0, "epoll_ctl");
	for (int i = 0; i < CLIENTS; i++) {
		must(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]) == 0, "socketpair");
		event.data.fd = pairs[i][0];
		must(epoll_ctl(epoll, EPOLL_CTL_ADD, pairs[i][0], &event) == 0, "epoll_ctl");
		must(pthread_create(&threads[i], NULL, client, &pairs[i][1]) == 0, "pthread_create");
	}
	while (open > 0) {
		size_t count = cmwq_cq_drain(cq, done, 64);
		for (size_t i = 0; i < count; i++, answered++) {
			struct request *request = (struct request *)(uintptr_t)done[i].token;
			must(write(request->client, &done[i].result, 8) == 8, "write");
			free(request);
		}
		int found = epoll_wait(epoll, events, 8, count == 0 && cmwq_cq_arm(cq) ? -1 : 0);
		for (int i = 0; i < found; i++) {
			int fd = events[i].data.fd;
			struct request *request = (struct request *)malloc(sizeof(*request));
			if (fd >= 0 && read(fd, &request->number, 8) == 8) {
				request->client = fd;
				must(cmwq_cq_execute(cq, wq, answer, request, (uintptr_t)request) == 0, "execute");
				continue;
			}
			free(request);
			open -= fd >= 0 && close(fd) == 0;
		}
	}
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(threads[i], NULL);
	printf("%d requests answered\n", answered);
	cmwq_cq_destroy(cq);
	return cmwq_destroy_workqueue(wq);
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Batches, fates, and completion queues. Waits end by an alarm if they do not end by themselves. */
#include <cmwq.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond), abort()))
#define MANY 300
/* Fewer under valgrind. */
#ifndef ROUNDS
#define ROUNDS 50
#endif
#define ENTRIES (200 * ROUNDS)

struct counted {
	struct cmwq_work work;
	atomic_int runs;
};

static void count(struct cmwq_work *work)
{
	CMWQ_CONTAINER_OF(work, struct counted, work)->runs++;
}

static struct cmwq_completion go = CMWQ_COMPLETION_INIT, begun = CMWQ_COMPLETION_INIT;

static void hold(struct cmwq_work *work)
{
	(void)work;
	cmwq_complete(&begun);
	cmwq_wait_for_completion(&go);
}

static void batches(void)
{
	static struct counted counted[MANY];
	static struct cmwq_work holding = CMWQ_WORK_INIT(hold), none;
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("batches", CMWQ_WQ_UNBOUND, 1);
	struct cmwq_work *works[MANY];
	int fates[MANY];

	for (int i = 0; i < MANY; i++) {
		cmwq_init_work(&counted[i].work, count);
		works[i] = &counted[i].work;
	}
	for (int round = 1; round <= ROUNDS; round++) {
		CHECK(cmwq_queue_work_batch(wq, works, MANY) == MANY);
		cmwq_flush_workqueue(wq);
		for (int i = 0; i < MANY; i++)
			CHECK(counted[i].runs == round);
	}
	CHECK(cmwq_queue_work_batch(wq, works, 0) == 0);
	CHECK(cmwq_queue_work_batch(wq, NULL, 0) == 0);

	/* Nothing begins while this one waits. */
	CHECK(cmwq_try_queue_work(wq, &holding) == CMWQ_QUEUED_ACCEPTED);
	cmwq_wait_for_completion(&begun);
	cmwq_disable_work(works[2]);
	CHECK(cmwq_try_queue_work(wq, works[2]) == CMWQ_QUEUED_DISABLED);
	CHECK(cmwq_try_queue_work(wq, works[200]) == CMWQ_QUEUED_ACCEPTED);
	CHECK(cmwq_try_queue_work(wq, works[200]) == CMWQ_QUEUED_PENDING);
	CHECK(cmwq_queue_work_batch_fates(wq, works, MANY, fates) == MANY - 2);
	for (int i = 0; i < MANY; i++)
		CHECK(fates[i] == (i == 2 ? CMWQ_QUEUED_DISABLED : i == 200 ? CMWQ_QUEUED_PENDING : CMWQ_QUEUED_ACCEPTED));
	cmwq_complete_all(&go);
	cmwq_flush_workqueue(wq);
	CHECK(counted[2].runs == ROUNDS && counted[3].runs == ROUNDS + 1 && counted[200].runs == ROUNDS + 1);
	cmwq_enable_work(works[2]);

	/* Wrong use: what can be queued is. */
	works[1] = NULL;
	works[4] = &none;
	CHECK(cmwq_queue_work_batch_fates(wq, works, 6, fates) == 4);
	CHECK(fates[1] == -EINVAL && fates[4] == -EINVAL && fates[5] == CMWQ_QUEUED_ACCEPTED);
	CHECK(cmwq_queue_work_batch(wq, NULL, 3) == 0 && errno == EINVAL);
	CHECK(cmwq_queue_work_batch_fates(wq, NULL, 3, fates) == 0 && errno == EINVAL);
	CHECK(fates[0] == -EINVAL && fates[2] == -EINVAL);
	errno = 0;
	CHECK(cmwq_queue_work_batch(wq, (struct cmwq_work **)((char *)works + 1), 2) == 0 && errno == EINVAL);
	errno = 0;
	CHECK(cmwq_queue_work_batch(wq, works, SIZE_MAX) == 0 && errno == EINVAL);
	CHECK(cmwq_queue_work_batch_fates(wq, works, SIZE_MAX, fates) == 0);
	CHECK(cmwq_try_queue_work(NULL, works[0]) == -EINVAL);
	cmwq_destroy_workqueue(wq);
	CHECK(cmwq_queue_work_batch_fates(wq, works + 5, 3, fates) == 0 && errno == ESTALE);
	CHECK(fates[0] == -ESTALE && fates[2] == -ESTALE);
	CHECK(cmwq_try_queue_work(wq, works[5]) == -ESTALE);
}

static int64_t twice(void *arg)
{
	return 2 * (int64_t)(intptr_t)arg;
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd pollfd = {.fd = fd, .events = POLLIN};

	return poll(&pollfd, 1, timeout_ms) == 1;
}

/* Waits for the only entry that is still to come: its own. */
static int64_t wait_for_own_entry(void *cq)
{
	struct cmwq_cqe entry;

	return (int64_t)cmwq_cq_wait((struct cmwq_cq *)cq, &entry, 1);
}

static void completion_queues(void)
{
	struct cmwq_workqueue *wq = cmwq_alloc_workqueue("results", CMWQ_WQ_UNBOUND, 0);
	struct cmwq_cq *cq = cmwq_cq_create(CMWQ_CQ_EVENTFD, 0), *small = cmwq_cq_create(0, 2), *other;
	struct cmwq_cqe entries[64];
	size_t n, got = 0;
	static bool seen[ENTRIES];

	for (int i = 0; i < ENTRIES; i++)
		CHECK(cmwq_cq_execute(cq, wq, twice, (void *)(intptr_t)i, (uint64_t)i) == 0);
	while (got < ENTRIES) {
		while ((n = cmwq_cq_drain(cq, entries, 64)) > 0) {
			for (size_t i = 0; i < n; i++) {
				CHECK(!seen[entries[i].token] && entries[i].result == 2 * (int64_t)entries[i].token);
				seen[entries[i].token] = true;
			}
			got += n;
		}
		if (got < ENTRIES && cmwq_cq_arm(cq))
			CHECK(is_readable(cmwq_cq_fd(cq), -1));
	}
	CHECK(cmwq_cq_arm(cq));
	other = cmwq_cq_clone(cq);
	CHECK(cmwq_cq_post(other, 1, 10) == 0);
	CHECK(is_readable(cmwq_cq_fd(cq), 0));
	CHECK(!cmwq_cq_arm(other));
	CHECK(cmwq_cq_wait(other, entries, 64) == 1 && entries[0].token == 1 && entries[0].result == 10);
	/* The first owner is armed still, and must be woken by what comes now. */
	cmwq_cq_destroy(other);
	CHECK(cmwq_cq_drain(cq, entries, 64) == 0);
	CHECK(cmwq_cq_wait_timeout_ns(cq, entries, 64, 1000000) == 0);

	CHECK(cmwq_cq_execute(cq, wq, wait_for_own_entry, cq, 3) == 0);
	CHECK(cmwq_cq_wait(cq, entries, 64) == 1 && entries[0].token == 3 && entries[0].result == 0);

	CHECK(cmwq_cq_fd(small) == -EINVAL);
	CHECK(!cmwq_cq_arm(small) && errno == EINVAL);
	CHECK(cmwq_cq_post(small, 1, 0) == 0 && cmwq_cq_execute(small, wq, twice, NULL, 2) == 0);
	CHECK(cmwq_cq_post(small, 3, 0) == -ENOSPC && cmwq_cq_execute(small, wq, twice, NULL, 4) == -ENOSPC);
	cmwq_flush_workqueue(wq);
	CHECK(cmwq_cq_drain(small, entries, 1) == 1 && entries[0].token == 1);
	CHECK(cmwq_cq_drain(small, entries, 64) == 1 && entries[0].token == 2);
	CHECK(cmwq_cq_execute(small, wq, NULL, NULL, 5) == -EINVAL && cmwq_cq_execute(NULL, wq, twice, NULL, 5) == -EINVAL);
	CHECK(cmwq_cq_drain(small, NULL, 1) == 0 && errno == EINVAL);
	CHECK(cmwq_cq_create(64, 0) == NULL && errno == EINVAL);
	cmwq_destroy_workqueue(wq);
	CHECK(cmwq_cq_execute(small, wq, twice, NULL, 5) == -ESTALE);
	cmwq_cq_destroy(small);
	cmwq_cq_destroy(cq);
	cmwq_cq_destroy(NULL);
}

int main(void)
{
	alarm(240);
	batches();
	completion_queues();
	return 0;
}

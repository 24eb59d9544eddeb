/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that run items: the program's hooks around them, their names, their stacks. */
#define _GNU_SOURCE
#include <cmwq.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>

#include "check.h"

/* What a library with state for each thread has. */
static _Thread_local int registered;
static atomic_int nr_registered, nr_rescuers, nr_run, nr_unregistered_runs;

static void start(const struct cmwq_worker *worker, void *arg)
{
	CHECK(worker->size >= sizeof(*worker) && arg == &nr_registered);
	CHECK((worker->rescuer_of != NULL) == (worker->pool < 0));
	CHECK(registered++ == 0);
	atomic_fetch_add(&nr_registered, 1);
	if (worker->rescuer_of) {
		CHECK(strcmp(worker->rescuer_of, "reclaim") == 0 && cmwq_current_is_rescuer());
		atomic_fetch_add(&nr_rescuers, 1);
	}
}

static void end(const struct cmwq_worker *worker, void *arg)
{
	CHECK(worker->name && arg == &nr_registered);
	CHECK(registered-- == 1);
	/* The last first: where none is registered, no rescuer is. */
	if (worker->rescuer_of)
		atomic_fetch_sub(&nr_rescuers, 1);
	atomic_fetch_sub(&nr_registered, 1);
}

static void run(struct cmwq_work *work)
{
	(void)work;
	if (!registered)
		atomic_fetch_add(&nr_unregistered_runs, 1);
	atomic_fetch_add(&nr_run, 1);
}

static char seen_name[2][16];
static size_t seen_stack;

static void look(struct cmwq_work *work)
{
	pthread_attr_t attr;

	(void)work;
	prctl(PR_GET_NAME, seen_name[0]);
	prctl(PR_SET_NAME, "borrowed");
	CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
	CHECK(pthread_attr_getstacksize(&attr, &seen_stack) == 0);
	pthread_attr_destroy(&attr);
}

static void look_again(struct cmwq_work *work)
{
	(void)work;
	prctl(PR_GET_NAME, seen_name[1]);
}

static void names_and_stacks(void)
{
	struct cmwq_thread_attrs attrs = CMWQ_THREAD_ATTRS_INIT;
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;
	struct cmwq_work first = CMWQ_WORK_INIT(look), second = CMWQ_WORK_INIT(look_again);
	struct cmwq_workqueue *wq;
	struct cmwq_threads *threads;

	attrs.name_format = "disk/%p%h";
	attrs.stack_size = 16 << 20;
	attrs.flags = CMWQ_THREADS_RESTORE_NAMES;
	threads = cmwq_alloc_threads(&attrs);
	CHECK(threads);
	options.threads = threads;
	/* BH items of one CPU have one thread. */
	wq = cmwq_alloc_workqueue_with("named", CMWQ_WQ_BH | CMWQ_WQ_PERCPU, 0, &options);
	CHECK(wq);
	cmwq_free_threads(threads);
	cmwq_queue_work_on(0, wq, &first);
	cmwq_flush_work(&first);
	cmwq_queue_work_on(0, wq, &second);
	cmwq_flush_work(&second);
	CHECK(strcmp(seen_name[0], "disk/b0H") == 0);
	CHECK(strcmp(seen_name[1], seen_name[0]) == 0);
	CHECK(seen_stack >= 16 << 20 && seen_stack < 18 << 20);
	CHECK(cmwq_destroy_workqueue(wq) == 0);
}

static void wrong(void)
{
	struct cmwq_thread_attrs attrs = CMWQ_THREAD_ATTRS_INIT;
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;

	errno = 0;
	CHECK(!cmwq_alloc_threads(NULL) && errno == EINVAL);
	/* A stack that can never be had. */
	attrs.stack_size = 1ull << 60;
	errno = 0;
	CHECK(!cmwq_alloc_threads(&attrs) && errno == EINVAL);
	attrs.stack_size = 0;
	attrs.name_format = "worker %d";
	CHECK(!cmwq_alloc_threads(&attrs));
	attrs.name_format = NULL;
	attrs.flags = 1u << 31;
	CHECK(!cmwq_alloc_threads(&attrs));
	attrs.size = 0;
	attrs.flags = 0;
	CHECK(!cmwq_alloc_threads(&attrs));
	options.size = 0;
	CHECK(!cmwq_alloc_workqueue_with("wrong", CMWQ_WQ_UNBOUND, 0, &options));
	CHECK(!cmwq_alloc_workqueue_with("wrong", CMWQ_WQ_UNBOUND, 0, NULL));
	options.size = sizeof(options);
	options.ordered = true;
	CHECK(!cmwq_alloc_workqueue_with("wrong", CMWQ_WQ_UNBOUND, 2, &options));
	cmwq_free_threads(NULL);
}

int main(void)
{
	static struct cmwq_work items[64];
	struct cmwq_thread_attrs attrs = CMWQ_THREAD_ATTRS_INIT;
	unsigned int kinds[] = {CMWQ_WQ_UNBOUND, CMWQ_WQ_PERCPU, CMWQ_WQ_BH | CMWQ_WQ_PERCPU, CMWQ_WQ_UNBOUND | CMWQ_WQ_MEM_RECLAIM};
	struct cmwq_workqueue *wqs[4];
	struct cmwq_threads *threads;
	int kind, i;

	attrs.worker_start = start;
	attrs.worker_exit = end;
	attrs.arg = &nr_registered;
	threads = cmwq_alloc_threads(&attrs);
	CHECK(threads && cmwq_set_default_threads(threads) == 0);
	CHECK(cmwq_set_default_threads(threads) == -EBUSY);
	cmwq_free_threads(threads);
	for (kind = 0; kind < 4; kind++) {
		wqs[kind] = cmwq_alloc_workqueue(kind == 3 ? "reclaim" : "hooked", kinds[kind], 0);
		CHECK(wqs[kind]);
		for (i = 0; i < 64; i++) {
			cmwq_init_work(&items[i], run);
			CHECK(cmwq_queue_work(wqs[kind], &items[i]));
		}
		for (i = 0; i < 64; i++)
			cmwq_flush_work(&items[i]);
	}
	CHECK(nr_run == 4 * 64 && nr_unregistered_runs == 0);
	CHECK(nr_registered > 0 && !registered);
	CHECK_SOON(nr_rescuers == 1);
	for (kind = 0; kind < 4; kind++)
		CHECK(cmwq_destroy_workqueue(wqs[kind]) == 0);
	/* The pools are gone: their threads end. */
	CHECK_SOON(nr_registered == 0);
	CHECK(nr_rescuers == 0);
	names_and_stacks();
	wrong();
	return 0;
}

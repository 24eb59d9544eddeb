/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Items that wait for what needs their own place: of an ordered workqueue, the only one of max_active, that of a BH item on its CPU, or
 * the only one of a group. The functions of cmwq.h answer EDEADLK at once, and nothing is lost; flush_work() waits, as in the kernel.
 *
 * A wait that does not end is ended by the alarm. Seen to hang: cmwq_flush_work() with each kind, cmwq_flush_delayed_work(),
 * cmwq_work_on_cpu(), cmwq_schedule_on_each_cpu(), cmwq_rcu_barrier(). Seen to fail: flush_work() that does not wait.
 */
#include <errno.h>
#include <linux/workqueue.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum kind { ORDERED, ONE_UNBOUND, ONE_PERCPU, BH, TWO_BH, GROUP, TWO_OF_A_GROUP, KINDS };

static atomic_int warned;

static void hear(const char *text, void *arg)
{
	(void)arg;
	if (strstr(text, "cannot begin before it ends") || strstr(text, "a BH item waits for another"))
		atomic_fetch_add(&warned, 1);
}

static struct cmwq_workqueue *grouped(const char *name, struct cmwq_group *group)
{
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;

	options.group = group;
	return cmwq_alloc_workqueue_with(name, CMWQ_WQ_UNBOUND, 0, &options);
}

/* Where the item that waits is queued, and where the one that it waits for. */
struct queues {
	struct cmwq_workqueue *own, *other;
	struct cmwq_group *group;
};

static struct queues make(enum kind kind)
{
	struct queues made = {NULL, NULL, NULL};

	switch (kind) {
	case ORDERED:
		made.own = cmwq_alloc_ordered_workqueue("ordered", CMWQ_WQ_UNBOUND);
		break;
	case ONE_UNBOUND:
		made.own = cmwq_alloc_workqueue("one", CMWQ_WQ_UNBOUND, 1);
		break;
	case ONE_PERCPU:
		made.own = cmwq_alloc_workqueue("one", CMWQ_WQ_PERCPU, 1);
		break;
	case TWO_BH:
		made.other = cmwq_alloc_workqueue("bh", CMWQ_WQ_BH | CMWQ_WQ_PERCPU, 0);
		/* fallthrough */
	case BH:
		made.own = cmwq_alloc_workqueue("bh", CMWQ_WQ_BH | CMWQ_WQ_PERCPU, 0);
		break;
	case TWO_OF_A_GROUP:
	case GROUP:
		made.group = cmwq_alloc_group("group", 1);
		made.own = grouped("first", made.group);
		if (kind == TWO_OF_A_GROUP)
			made.other = grouped("second", made.group);
		break;
	case KINDS:
		break;
	}
	CHECK(made.own);
	if (!made.other)
		made.other = made.own;
	return made;
}

static void end(struct queues queues)
{
	CHECK(cmwq_destroy_workqueue(queues.own) == 0);
	if (queues.other != queues.own)
		CHECK(cmwq_destroy_workqueue(queues.other) == 0);
	cmwq_free_group(queues.group);
}

static atomic_int runs;

static void count(struct cmwq_work *work)
{
	(void)work;
	atomic_fetch_add(&runs, 1);
}

struct waits {
	struct cmwq_work work, behind;
	struct cmwq_delayed_work delayed;
	struct queues queues;
	int of_queue, drained;
	bool flushed, flushed_delayed;
	int error, error_delayed;
};

static void wait_for_both(struct cmwq_work *work)
{
	struct waits *waits = CMWQ_CONTAINER_OF(work, struct waits, work);
	struct cmwq_workqueue *other = waits->queues.other;

	/* On the CPU that the caller is on: for the unbound ones a place to begin with. */
	CHECK(cmwq_queue_work_on(0, other, &waits->behind));
	errno = 0;
	waits->flushed = cmwq_flush_work(&waits->behind);
	waits->error = errno;
	CHECK(cmwq_work_pending(&waits->behind));
	CHECK(cmwq_queue_delayed_work_on_ns(0, other, &waits->delayed, 3600000000000ull));
	errno = 0;
	waits->flushed_delayed = cmwq_flush_delayed_work(&waits->delayed);
	waits->error_delayed = errno;
	CHECK(cmwq_work_pending(&waits->delayed.work));
	waits->of_queue = cmwq_flush_workqueue(other);
	waits->drained = cmwq_drain_workqueue(other);
}

/* Twice, since what is said once must be refused always. */
static void items(void)
{
	for (int i = 0; i < 2 * KINDS; i++) {
		struct waits waits = {.flushed = true, .flushed_delayed = true};

		waits.queues = make((enum kind)(i % KINDS));
		atomic_store(&runs, 0);
		cmwq_init_work(&waits.work, wait_for_both);
		cmwq_init_work(&waits.behind, count);
		cmwq_init_delayed_work(&waits.delayed, count);
		CHECK(cmwq_queue_work_on(0, waits.queues.own, &waits.work));
		cmwq_flush_work(&waits.work);
		CHECK(!waits.flushed && waits.error == EDEADLK);
		CHECK(!waits.flushed_delayed && waits.error_delayed == EDEADLK);
		CHECK(waits.of_queue == -EDEADLK && waits.drained == -EDEADLK);
		/* They have their turn, and their timer was stopped. */
		cmwq_flush_work(&waits.behind);
		cmwq_flush_delayed_work(&waits.delayed);
		CHECK(atomic_load(&runs) == 2);
		end(waits.queues);
	}
	/* Of places, and of BH. */
	CHECK(atomic_load(&warned) == 2);
}

static void end_the_other(struct cmwq_work *work)
{
	struct waits *waits = CMWQ_CONTAINER_OF(work, struct waits, work);

	CHECK(cmwq_queue_work(waits->queues.other, &waits->behind));
	waits->drained = cmwq_destroy_workqueue(waits->queues.other);
}

/* Whoever ends a queue whose items need the own place: it ends when they have run. */
static void an_end(void)
{
	struct waits waits = {.drained = 1};

	waits.queues = make(TWO_OF_A_GROUP);
	atomic_store(&runs, 0);
	cmwq_init_work(&waits.work, end_the_other);
	cmwq_init_work(&waits.behind, count);
	CHECK(cmwq_queue_work(waits.queues.own, &waits.work));
	cmwq_flush_work(&waits.work);
	CHECK(waits.drained == 0);
	cmwq_flush_work(&waits.behind);
	CHECK(atomic_load(&runs) == 1);
	waits.queues.other = waits.queues.own;
	end(waits.queues);
}

static long seven(void *arg)
{
	(void)arg;
	return 7;
}

static atomic_int called;

static void call_back(struct cmwq_rcu_head *head)
{
	(void)head;
	atomic_fetch_add(&called, 1);
}

/* Waits for items that a function of the interface queues itself. */
struct within {
	struct cmwq_work work;
	struct cmwq_rcu_head head;
	long on_cpu;
	int on_each, error, called;
};

static void run_on_cpus(struct cmwq_work *work)
{
	struct within *within = CMWQ_CONTAINER_OF(work, struct within, work);

	within->on_cpu = cmwq_work_on_cpu(0, seven, NULL);
	within->on_each = cmwq_schedule_on_each_cpu(count);
}

static void await_callbacks(struct cmwq_work *work)
{
	struct within *within = CMWQ_CONTAINER_OF(work, struct within, work);

	cmwq_call_rcu(&within->head, call_back);
	errno = 0;
	cmwq_rcu_barrier();
	within->error = errno;
	within->called = atomic_load(&called);
}

/* What has to run where there is no place is an error; callbacks run elsewhere. */
static void queued_by_the_interface(void)
{
	struct within within = {.on_cpu = 0};

	CHECK(cmwq_workqueue_set_max_active(cmwq_system_percpu_wq, 1) == 0);
	cmwq_init_work(&within.work, run_on_cpus);
	CHECK(cmwq_queue_work_on(0, cmwq_system_percpu_wq, &within.work));
	cmwq_flush_work(&within.work);
	CHECK(within.on_cpu == -EDEADLK && within.on_each == -EDEADLK);
	CHECK(cmwq_workqueue_set_max_active(cmwq_system_percpu_wq, 1024) == 0);
	CHECK(cmwq_work_on_cpu(0, seven, NULL) == 7);
	CHECK(cmwq_schedule_on_each_cpu(count) == 0);

	CHECK(cmwq_workqueue_set_max_active(cmwq_system_dfl_long_wq, 1) == 0);
	cmwq_init_work(&within.work, await_callbacks);
	CHECK(cmwq_queue_work(cmwq_system_dfl_long_wq, &within.work));
	cmwq_flush_work(&within.work);
	CHECK(within.error == 0 && within.called == 1);
	CHECK(cmwq_workqueue_set_max_active(cmwq_system_dfl_long_wq, 1024) == 0);
}

struct kernel {
	struct work_struct work, behind;
	struct workqueue_struct *wq;
	atomic_bool waits, flushed;
};

static void wait_as_the_kernel(struct work_struct *work)
{
	struct kernel *kernel = container_of(work, struct kernel, work);

	CHECK(queue_work(kernel->wq, &kernel->behind));
	atomic_store(&kernel->waits, true);
	flush_work(&kernel->behind);
	atomic_store(&kernel->flushed, true);
}

static void never(struct work_struct *work)
{
	(void)work;
	abort();
}

/* A program of the kernel's kind may free the item when flush_work() has returned, whatever the answer. */
static void the_kernels_name_waits(void)
{
	struct kernel kernel = {.waits = false};

	kernel.wq = alloc_ordered_workqueue("kernel's", 0);
	INIT_WORK(&kernel.work, wait_as_the_kernel);
	INIT_WORK(&kernel.behind, never);
	CHECK(queue_work(kernel.wq, &kernel.work));
	CHECK_SOON(atomic_load(&kernel.waits));
	cmwq_sleep_ns(50000000);
	CHECK(!atomic_load(&kernel.flushed));
	CHECK(cancel_work_sync(&kernel.behind));
	flush_work(&kernel.work);
	CHECK(atomic_load(&kernel.flushed));
	destroy_workqueue(kernel.wq);
}

int main(void)
{
	alarm(240);
	cmwq_set_warning_handler(hear, NULL);
	items();
	an_end();
	queued_by_the_interface();
	the_kernels_name_waits();
	return 0;
}

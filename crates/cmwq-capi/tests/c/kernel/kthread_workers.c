/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that run work in order: queueing, flushing, delays, cancelling, from several threads. */
#include <linux/atomic.h>
#include <linux/kthread.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/workqueue.h>

#include "check.h"

enum { ITEMS = 64, ROUNDS = 50 };

struct job {
	struct kthread_work work;
	int nr_runs, at;
};

static int nr_started;
static struct job jobs[ITEMS];
static struct task_struct *runner;

static void run(struct kthread_work *work)
{
	struct job *job = container_of(work, struct job, work);

	CHECK(!runner || runner == current);
	job->nr_runs++;
	job->at = nr_started++;
}

static void in_order(void)
{
	struct kthread_worker *worker = kthread_run_worker(0, "in-order/%d", 1);
	int i, round;

	CHECK(!IS_ERR(worker));
	runner = worker->task;
	for (i = 0; i < ITEMS; i++)
		kthread_init_work(&jobs[i].work, run);
	for (round = 1; round <= ROUNDS; round++) {
		for (i = 0; i < ITEMS; i++)
			CHECK(kthread_queue_work(worker, &jobs[i].work));
		if (round % 2)
			kthread_flush_worker(worker);
		else
			kthread_flush_work(&jobs[ITEMS - 1].work);
		for (i = 0; i < ITEMS; i++)
			CHECK(jobs[i].nr_runs == round && jobs[i].at == (round - 1) * ITEMS + i);
	}
	/* What is queued runs before it ends. */
	CHECK(kthread_queue_work(worker, &jobs[0].work));
	kthread_destroy_worker(worker);
	CHECK(jobs[0].nr_runs == ROUNDS + 1);
	runner = NULL;
}

struct held {
	struct kthread_work work;
	struct completion begun, open;
	int nr_runs;
};

static void hold(struct kthread_work *work)
{
	struct held *held = container_of(work, struct held, work);

	complete(&held->begun);
	wait_for_completion(&held->open);
	held->nr_runs++;
}

static struct held held;

static bool is_cancelled(struct kthread_work *work)
{
	bool is;

	pthread_mutex_lock(&work->worker->lock);
	is = work->canceling != 0;
	pthread_mutex_unlock(&work->worker->lock);
	return is;
}

static void open_held(struct work_struct *work)
{
	(void)work;
	/* Not before the pending instance was removed: it would run, and wait. */
	while (!is_cancelled(&held.work))
		cond_resched();
	complete(&held.open);
}

static void pending_and_cancelled(void)
{
	struct kthread_worker *worker = kthread_run_worker(0, "cancel");
	DECLARE_WORK(opener, open_held);

	kthread_init_work(&held.work, hold);
	init_completion(&held.begun);
	init_completion(&held.open);
	kthread_init_work(&jobs[0].work, run);
	jobs[0].nr_runs = 0;
	CHECK(!kthread_cancel_work_sync(&jobs[0].work));
	CHECK(kthread_queue_work(worker, &held.work));
	wait_for_completion(&held.begun);
	CHECK(kthread_queue_work(worker, &jobs[0].work));
	CHECK(!kthread_queue_work(worker, &jobs[0].work));
	CHECK(kthread_cancel_work_sync(&jobs[0].work));
	CHECK(!kthread_cancel_work_sync(&jobs[0].work));
	/* It runs and is pending once more: the one is waited for, the other removed. */
	CHECK(kthread_queue_work(worker, &held.work));
	CHECK(queue_work(system_dfl_wq, &opener));
	CHECK(kthread_cancel_work_sync(&held.work));
	CHECK(held.nr_runs == 1);
	flush_work(&opener);
	kthread_destroy_worker(worker);
	CHECK(jobs[0].nr_runs == 0 && held.nr_runs == 1);
}

/* What is flushed is waited for, and what was queued before it: the worker is held until the flush is on its list. */
static struct kthread_worker *flushed;

/* So that one that does not wait for it goes on before. */
static void run_slowly(struct kthread_work *work)
{
	cmwq_sleep_ns(20000000);
	run(work);
}

static void open_when_flushed(struct work_struct *work)
{
	struct kthread_work *pos;
	bool is_there = false;

	(void)work;
	while (!is_there) {
		pthread_mutex_lock(&flushed->lock);
		list_for_each_entry(pos, &flushed->work_list, node)
			is_there |= pos->func == cmwq_kthread_flush_fn;
		pthread_mutex_unlock(&flushed->lock);
		cond_resched();
	}
	complete(&held.open);
}

static void flushed_in_its_place(void)
{
	DECLARE_WORK(opener, open_when_flushed);
	int i;

	flushed = kthread_run_worker(0, "flush");
	kthread_init_work(&held.work, hold);
	CHECK(kthread_queue_work(flushed, &held.work));
	for (i = 0; i < 3; i++) {
		kthread_init_work(&jobs[i].work, i == 1 ? run_slowly : run);
		jobs[i].nr_runs = 0;
		CHECK(kthread_queue_work(flushed, &jobs[i].work));
	}
	CHECK(queue_work(system_dfl_wq, &opener));
	kthread_flush_work(&jobs[1].work);
	CHECK(jobs[0].nr_runs == 1 && jobs[1].nr_runs == 1);
	flush_work(&opener);
	kthread_destroy_worker(flushed);
	CHECK(jobs[2].nr_runs == 1);
}

static void exits(struct kthread_work *work)
{
	run(work);
	pthread_exit(NULL);
}

static void exits_as_kthread(struct kthread_work *work)
{
	run(work);
	kthread_exit(3);
}

static void is_ended(struct kthread_work *work)
{
	run(work);
	pthread_cancel(pthread_self());
	pthread_testcancel();
}

/* Work that ends its thread ends itself only: it counts as run, and what is behind it runs on the same thread. */
static void work_ends_its_thread(void)
{
	kthread_work_func_t funcs[] = {is_ended, exits, exits_as_kthread, run};
	struct kthread_worker *worker = kthread_run_worker(0, "exits");
	int i, round;

	CHECK(!IS_ERR(worker));
	runner = worker->task;
	for (i = 0; i < ITEMS; i++) {
		kthread_init_work(&jobs[i].work, funcs[i % 4]);
		jobs[i].nr_runs = 0;
	}
	for (round = 1; round <= 3; round++) {
		for (i = 0; i < ITEMS; i++)
			CHECK(kthread_queue_work(worker, &jobs[i].work));
		kthread_flush_work(&jobs[ITEMS - 3].work);
		CHECK(jobs[ITEMS - 3].nr_runs == round);
		kthread_flush_worker(worker);
		for (i = 0; i < ITEMS; i++)
			CHECK(jobs[i].nr_runs == round);
	}
	CHECK(kthread_queue_work(worker, &jobs[1].work));
	kthread_destroy_worker(worker);
	CHECK(jobs[1].nr_runs == 4);
	runner = NULL;
}

struct late {
	struct kthread_delayed_work dwork;
	struct completion done;
	atomic_t nr_runs;
};

static void run_late(struct kthread_work *work)
{
	struct late *late = container_of(work, struct late, dwork.work);

	atomic_inc(&late->nr_runs);
	complete(&late->done);
}

static void bound(struct kthread_work *work)
{
	(void)work;
	CHECK(raw_smp_processor_id() == (int)cpumask_first(cpu_online_mask));
	nr_started++;
}

static void on_one_cpu(void)
{
	unsigned int cpu = cpumask_first(cpu_online_mask);
	struct kthread_worker *worker = kthread_run_worker_on_cpu(cpu, 0, "bound/%u");
	struct kthread_work work;
	int before = nr_started;

	CHECK(!IS_ERR(worker));
	kthread_init_work(&work, bound);
	CHECK(kthread_queue_work(worker, &work));
	kthread_destroy_worker(worker);
	CHECK(nr_started == before + 1);
}

static void delayed(void)
{
	static struct late late;
	struct kthread_worker *worker = kthread_run_worker(0, "delayed");
	unsigned long begin = jiffies;
	int i;

	kthread_init_delayed_work(&late.dwork, run_late);
	init_completion(&late.done);
	CHECK(kthread_queue_delayed_work(worker, &late.dwork, 3));
	wait_for_completion(&late.done);
	CHECK(jiffies - begin >= 3);
	CHECK(kthread_queue_delayed_work(worker, &late.dwork, 0));
	wait_for_completion(&late.done);
	/* Far away: pending, moved, cancelled. */
	CHECK(kthread_queue_delayed_work(worker, &late.dwork, 1000 * HZ));
	CHECK(!kthread_queue_delayed_work(worker, &late.dwork, 0));
	CHECK(kthread_mod_delayed_work(worker, &late.dwork, 1));
	wait_for_completion(&late.done);
	CHECK(kthread_queue_delayed_work(worker, &late.dwork, 1000 * HZ));
	CHECK(kthread_cancel_delayed_work_sync(&late.dwork));
	CHECK(!kthread_cancel_delayed_work_sync(&late.dwork));
	CHECK(atomic_read(&late.nr_runs) == 3);
	/* About to fire: it has run or was removed, and its memory may go. */
	for (i = 0; i < ROUNDS; i++) {
		struct late *mine = (struct late *)calloc(1, sizeof(*mine));
		bool removed;

		kthread_init_delayed_work(&mine->dwork, run_late);
		init_completion(&mine->done);
		CHECK(kthread_queue_delayed_work(worker, &mine->dwork, 1));
		if (i % 2)
			cmwq_sleep_ns(1000000 + (uint64_t)i * 5000);
		removed = kthread_cancel_delayed_work_sync(&mine->dwork);
		CHECK(atomic_read(&mine->nr_runs) == !removed);
		memset(mine, 0xff, sizeof(*mine));
		free(mine);
	}
	cmwq_sleep_ns(5000000);
	kthread_destroy_worker(worker);
}

/* A work that waits for itself and for its worker is told so, and goes on. */
static struct job later;

static void wait_for_oneself(struct kthread_work *work)
{
	struct kthread_worker *worker = work->worker;

	kthread_queue_work(worker, &later.work);
	kthread_flush_work(work);
	kthread_flush_work(&later.work);
	kthread_flush_worker(worker);
	CHECK(!kthread_cancel_work_sync(work) && !later.nr_runs);
	container_of(work, struct job, work)->nr_runs++;
}

static void not_for_oneself(void)
{
	struct kthread_worker *worker = kthread_run_worker(0, "itself");
	struct job job = {.nr_runs = 0};

	CHECK(!IS_ERR(worker));
	runner = NULL;
	kthread_init_work(&later.work, run);
	kthread_init_work(&job.work, wait_for_oneself);
	CHECK(kthread_queue_work(worker, &job.work));
	/* The first flush may be queued before the work has queued the other one. */
	kthread_flush_worker(worker);
	kthread_flush_work(&later.work);
	CHECK(job.nr_runs == 1 && later.nr_runs == 1);
	kthread_destroy_worker(worker);
}

static int stops_itself(void *answer)
{
	__atomic_store_n((int *)answer, kthread_stop(current), __ATOMIC_SEQ_CST);
	return kthread_should_stop() ? 0 : 3;
}

static int from_work;

static void ends_its_worker(struct kthread_work *work)
{
	CHECK(kthread_stop(current) == -EDEADLK);
	kthread_destroy_worker(work->worker);
	__atomic_store_n(&from_work, 1, __ATOMIC_SEQ_CST);
}

/* Nor for the end of one's own thread: that is an error, which changes nothing. */
static void not_for_the_own_end(void)
{
	int answer = 0;
	struct task_struct *task = kthread_run(stops_itself, &answer, "stops-itself");
	struct kthread_worker *worker = kthread_run_worker(0, "ends-itself");
	struct kthread_work work;

	CHECK(!IS_ERR(task) && !IS_ERR(worker));
	CHECK_SOON(__atomic_load_n(&answer, __ATOMIC_SEQ_CST) == -EDEADLK);
	/* -EINTR would say that its function was not called. */
	CHECK(kthread_stop(task) == 3);
	kthread_init_work(&work, ends_its_worker);
	CHECK(kthread_queue_work(worker, &work));
	CHECK_SOON(__atomic_load_n(&from_work, __ATOMIC_SEQ_CST));
	kthread_destroy_worker(worker);
}

int main(void)
{
	in_order();
	not_for_oneself();
	not_for_the_own_end();
	pending_and_cancelled();
	flushed_in_its_place();
	work_ends_its_thread();
	on_one_cpu();
	delayed();
	return 0;
}

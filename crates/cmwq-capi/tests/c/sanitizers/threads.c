/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For race detectors: plain memory that is handed from thread to thread by the library alone. With -DRACE=1, 2 or 3 the program
 * writes what nothing orders: while the item may run, after it waited for another workqueue, or in two items of one that is not ordered.
 */
#include <linux/completion.h>
#include <linux/workqueue.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef RACE
#define RACE 0
#endif

#ifndef ROUNDS
#define ROUNDS 300
#endif

static void check(int holds, int line)
{
	if (!holds) {
		fprintf(stderr, "line %d\n", line);
		exit(1);
	}
}

struct job {
	struct work_struct work;
	struct delayed_work dwork;
	struct completion done;
	long in, out;
};

static void run(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, work);

	job->out = job->in + 1;
}

static void run_late(struct work_struct *work)
{
	struct job *job = container_of(to_delayed_work(work), struct job, dwork);

	job->out = job->in + 2;
	complete(&job->done);
}

/* Queues itself before it writes: the next run may be another worker's, but not before this one has ended. */
struct chain {
	struct work_struct work;
	struct workqueue_struct *wq;
	struct completion done;
	long left;
};

static void run_again(struct work_struct *work)
{
	struct chain *chain = container_of(work, struct chain, work);

	if (chain->left > 1)
		queue_work(chain->wq, work);
	if (--chain->left == 0)
		complete(&chain->done);
}

static void run_chain(struct workqueue_struct *wq)
{
	struct chain chain = {.wq = wq, .left = ROUNDS};

	INIT_WORK_ONSTACK(&chain.work, run_again);
	init_completion(&chain.done);
	queue_work(wq, &chain.work);
	wait_for_completion(&chain.done);
	flush_work(&chain.work);
}

/* Items of an ordered workqueue come one after the other, on whatever threads: the one that runs the first sleeps when the second begins. */
struct turn {
	struct work_struct work;
	struct completion *waits, *says;
	long *count;
};

static void take_turn(struct work_struct *work)
{
	struct turn *turn = container_of(work, struct turn, work);

	if (turn->waits)
		wait_for_completion(turn->waits);
	if (turn->count)
		++*turn->count;
	if (turn->says)
		complete(turn->says);
}

static struct workqueue_struct *one_at_a_time(const char *name)
{
	return RACE == 3 ? alloc_workqueue("%s", WQ_UNBOUND, 1, name) : alloc_ordered_workqueue("%s", 0, name);
}

static void run_in_turn(void)
{
	struct workqueue_struct *wq = one_at_a_time("turns"), *other = one_at_a_time("other");
	DECLARE_COMPLETION_ONSTACK(all_queued);
	DECLARE_COMPLETION_ONSTACK(second_ran);
	struct turn first = {.waits = &all_queued}, sleeper = {.waits = &second_ran}, second = {.says = &second_ran};
	long count = 0;

	first.count = second.count = &count;
	INIT_WORK_ONSTACK(&first.work, take_turn);
	INIT_WORK_ONSTACK(&sleeper.work, take_turn);
	INIT_WORK_ONSTACK(&second.work, take_turn);
	check(queue_work(wq, &first.work) && queue_work(wq, &second.work), __LINE__);
	complete(&all_queued);
	check(queue_work(other, &sleeper.work), __LINE__);
	flush_workqueue(other);
	flush_workqueue(wq);
	check(count == 2, __LINE__);
	destroy_workqueue(wq);
	destroy_workqueue(other);
}

int main(void)
{
	struct workqueue_struct *wqs[] = {
		alloc_workqueue("unbound", WQ_UNBOUND, 0),
		alloc_workqueue("percpu", WQ_PERCPU, 0),
		alloc_ordered_workqueue("ordered", 0),
	};
	struct job *job = calloc(1, sizeof(*job));
	int i, wq;

	INIT_WORK(&job->work, run);
	INIT_DELAYED_WORK(&job->dwork, run_late);
	init_completion(&job->done);
	for (i = 0; i < ROUNDS; i++) {
		for (wq = 0; wq < 3; wq++) {
			job->in = i;
			check(queue_work(wqs[wq], &job->work), __LINE__);
#if RACE == 1
			job->out = 0;
#elif RACE == 2
			flush_workqueue(wqs[(wq + 1) % 3]);
			job->out = 0;
#endif
			flush_work(&job->work);
			check(RACE != 0 || job->out == i + 1, __LINE__);
			job->in = i + 7;
			check(queue_work(wqs[wq], &job->work), __LINE__);
			flush_workqueue(wqs[wq]);
			check(job->out == i + 8, __LINE__);
			job->in = i;
			queue_work(wqs[wq], &job->work);
			cancel_work_sync(&job->work);
			job->out = 0;
		}
	}
	for (i = 0; i < 20; i++) {
		job->in = i;
		check(queue_delayed_work(wqs[0], &job->dwork, 1), __LINE__);
		wait_for_completion(&job->done);
		check(job->out == i + 2, __LINE__);
		flush_delayed_work(&job->dwork);
	}
	for (wq = 0; wq < 3; wq++) {
		run_chain(wqs[wq]);
		run_in_turn();
		destroy_workqueue(wqs[wq]);
	}
	free(job);
	return 0;
}

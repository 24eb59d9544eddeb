/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For ThreadSanitizer: another thread frees an item while the item's function returns, once the function has said that it may. What is told of the
 * end of the run must not be told of the item's own memory. Without RACE nothing is reported; with -DRACE=1 the thread that frees it also writes
 * what the function writes after its signal.
 */
#include <linux/completion.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef RACE
#define RACE 0
#endif
#ifndef ROUNDS
#define ROUNDS 60000
#endif

struct job {
	struct work_struct work;
	struct completion *done;
	long in, *out;
};

#if RACE
static long behind;
#endif

static void run(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, work);

	*job->out = job->in + 1;
	complete(job->done);
#if RACE
	behind++;
#endif
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("freed", WQ_UNBOUND, 0);
	int round;

	for (round = 0; round < ROUNDS; round++) {
		DECLARE_COMPLETION_ONSTACK(done);
		struct job *job = kmalloc(sizeof(*job), GFP_KERNEL);
		long out = 0;

		INIT_WORK(&job->work, run);
		job->done = &done;
		job->in = round;
		job->out = &out;
		if (!queue_work(wq, &job->work))
			return 1;
		wait_for_completion(&done);
		kfree(job);
#if RACE
		behind++;
#endif
		if (out != round + 1)
			return 1;
	}
	destroy_workqueue(wq);
	return 0;
}

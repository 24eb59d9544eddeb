/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Tasklets: scheduled by several threads while another one disables and enables them; that are scheduled while disabled; that schedule themselves
 * and are killed.
 *
 * Seen to fail with: no wait in tasklet_disable(), or in tasklet_kill(), for the run that goes on; an enabling that does not queue; one that is scheduled
 * while it is killed; runs that do not look whether they are disabled.
 */
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/workqueue.h>

#include "check.h"

enum { THREADS = 2, TIMES = 3000 };

struct counter {
	struct tasklet_struct tasklet;
	/* Not atomic: it never runs beside itself, and not while it is disabled. */
	long runs;
	int seen, again;
};

static atomic_t produced, begun;

static void count(struct tasklet_struct *tasklet)
{
	struct counter *counter = from_tasklet(counter, tasklet, tasklet);

	counter->runs++;
	WRITE_ONCE(counter->seen, atomic_read(&produced));
	if (counter->again)
		tasklet_hi_schedule(tasklet);
}

static int produce(void *arg)
{
	struct counter *counter = (struct counter *)arg;
	int i;

	atomic_inc(&begun);
	for (i = 0; i < TIMES; i++) {
		atomic_inc(&produced);
		tasklet_schedule(&counter->tasklet);
	}
	return 7;
}

/* No scheduling is lost, and none runs where it must not. */
static void several_threads(void)
{
	static struct counter counter;
	struct task_struct *tasks[THREADS];
	int i;

	tasklet_setup(&counter.tasklet, count);
	for (i = 0; i < THREADS; i++) {
		tasks[i] = kthread_run(produce, &counter, "produce/%d", i);
		CHECK(!IS_ERR(tasks[i]));
	}
	CHECK_SOON(atomic_read(&begun) == THREADS);
	while (atomic_read(&produced) < THREADS * TIMES) {
		long runs;

		tasklet_disable(&counter.tasklet);
		runs = counter.runs;
		tasklet_disable_in_atomic(&counter.tasklet);
		tasklet_enable(&counter.tasklet);
		cond_resched();
		CHECK(counter.runs == runs);
		tasklet_enable(&counter.tasklet);
		cond_resched();
	}
	for (i = 0; i < THREADS; i++)
		CHECK(kthread_stop(tasks[i]) == 7);
	CHECK_SOON(READ_ONCE(counter.seen) == THREADS * TIMES);
	tasklet_kill(&counter.tasklet);
	CHECK(counter.runs > 0 && counter.runs <= THREADS * TIMES && counter.tasklet.state == 0);
}

static DECLARE_TASKLET_DISABLED(disabled, count);
static long old_runs;

static void count_old(unsigned long data)
{
	__atomic_fetch_add(&old_runs, (long)data, __ATOMIC_SEQ_CST);
}

static DECLARE_TASKLET_DISABLED_OLD(old, count_old);

static void while_disabled(void)
{
	struct counter counter = {.runs = 0};
	struct tasklet_struct other;
	int i;

	tasklet_setup(&counter.tasklet, count);
	tasklet_disable(&counter.tasklet);
	for (i = 0; i < 3; i++) {
		tasklet_schedule(&counter.tasklet);
		cmwq_flush_work(&counter.tasklet.cmwq_work);
	}
	CHECK(counter.runs == 0 && test_bit(TASKLET_STATE_SCHED, &counter.tasklet.state));
	tasklet_enable(&counter.tasklet);
	tasklet_kill(&counter.tasklet);
	CHECK(counter.runs == 1);
	/* Killed while it is disabled: it was scheduled, and is not any more. */
	tasklet_disable(&counter.tasklet);
	tasklet_schedule(&counter.tasklet);
	tasklet_kill(&counter.tasklet);
	tasklet_enable(&counter.tasklet);
	tasklet_schedule(&counter.tasklet);
	tasklet_kill(&counter.tasklet);
	CHECK(counter.runs == 2);

	CHECK(atomic_read(&disabled.count) == 1 && disabled.callback == count);
	old.data = 5;
	tasklet_schedule(&old);
	tasklet_enable(&old);
	tasklet_init(&other, count_old, 100);
	tasklet_schedule(&other);
	tasklet_kill(&other);
	tasklet_kill(&old);
	CHECK(old_runs == 105);
}

static void killed(void)
{
	struct counter counter = {.again = 1};
	int i;

	for (i = 0; i < 100; i++) {
		long runs;

		tasklet_setup(&counter.tasklet, count);
		tasklet_schedule(&counter.tasklet);
		tasklet_kill(&counter.tasklet);
		runs = counter.runs;
		CHECK(runs > i && counter.tasklet.state == 0 && !cmwq_work_pending(&counter.tasklet.cmwq_work));
		flush_workqueue(system_bh_wq);
		CHECK(counter.runs == runs);
	}
}

static int running, ended;

/* Ends after the other thread has begun to disable or to kill it, and some time later. */
static void end_late(struct tasklet_struct *tasklet)
{
	uint64_t until = cmwq_now_ns() + SOON_NS;

	WRITE_ONCE(running, 1);
	/* Awake: it must not block. */
	while (!atomic_read(&tasklet->count) && !test_bit(CMWQ_TASKLET_KILLED, &tasklet->state) && cmwq_now_ns() < until)
		cond_resched();
	until = cmwq_now_ns() + 1000000;
	while (cmwq_now_ns() < until)
		cond_resched();
	ended++;
}

static void waited_for(void)
{
	struct tasklet_struct tasklet;
	int i;

	tasklet_setup(&tasklet, end_late);
	for (i = 1; i <= 4; i++) {
		WRITE_ONCE(running, 0);
		tasklet_schedule(&tasklet);
		CHECK_SOON(READ_ONCE(running));
		if (i % 2) {
			tasklet_disable(&tasklet);
			CHECK(ended == i);
			tasklet_enable(&tasklet);
		} else {
			tasklet_kill(&tasklet);
			CHECK(ended == i);
		}
	}
	tasklet_kill(&tasklet);
}

static int returned;

static void waits_for_itself(struct tasklet_struct *tasklet)
{
	tasklet_disable(tasklet);
	tasklet_enable(tasklet);
	tasklet_schedule(tasklet);
	tasklet_kill(tasklet);
	__atomic_fetch_add(&returned, 1, __ATOMIC_SEQ_CST);
}

/* It is told that it cannot; what it has scheduled before it kills itself does not run. */
static void not_for_oneself(void)
{
	struct tasklet_struct tasklet;

	tasklet_setup(&tasklet, waits_for_itself);
	tasklet_schedule(&tasklet);
	CHECK_SOON(__atomic_load_n(&returned, __ATOMIC_SEQ_CST));
	tasklet_kill(&tasklet);
	flush_workqueue(system_bh_wq);
	CHECK(returned == 1 && tasklet.state == 0 && !cmwq_work_pending(&tasklet.cmwq_work));
}

#ifdef __GLIBC__
static void ends_its_thread(struct tasklet_struct *tasklet)
{
	(void)tasklet;
	__atomic_store_n(&running, 2, __ATOMIC_SEQ_CST);
	pthread_exit(NULL);
}

/* Who waits for a tasklet whose function has ended its thread goes on. */
static void ended_thread(void)
{
	struct tasklet_struct tasklet;

	tasklet_setup(&tasklet, ends_its_thread);
	tasklet_schedule(&tasklet);
	CHECK_SOON(READ_ONCE(running) == 2 && !test_bit(TASKLET_STATE_RUN, &tasklet.state));
	tasklet_disable(&tasklet);
	tasklet_kill(&tasklet);
}
#else
static void ended_thread(void)
{
}
#endif

int main(void)
{
	several_threads();
	waited_for();
	not_for_oneself();
	ended_thread();
	while_disabled();
	killed();
	return 0;
}

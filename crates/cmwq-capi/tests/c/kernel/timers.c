/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Timers on the wheel; items and memory that wait for a grace period. */
#include <linux/delay.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/workqueue.h>

#include "check.h"

struct ticker {
	int fired, rearm;
	unsigned long at;
	struct timer_list timer;
};

static void tick(struct timer_list *timer)
{
	struct ticker *ticker = from_timer(ticker, timer, timer);

	CHECK(time_after_eq(jiffies, timer->expires));
	ticker->at = jiffies;
	if (ticker->rearm)
		mod_timer(timer, jiffies + 1);
	__atomic_fetch_add(&ticker->fired, 1, __ATOMIC_SEQ_CST);
}

static void timers(void)
{
	struct ticker ticker = {.fired = 0};
	unsigned long start = jiffies;

	timer_setup(&ticker.timer, tick, 0);
	CHECK(!timer_pending(&ticker.timer) && mod_timer(&ticker.timer, jiffies + 1000 * HZ) == 0 && timer_pending(&ticker.timer));
	CHECK(mod_timer(&ticker.timer, start + 5) == 1);
	CHECK_SOON(smp_load_acquire(&ticker.fired) == 1);
	CHECK(time_after_eq(ticker.at, start + 5));
	CHECK_SOON(!timer_pending(&ticker.timer));
	CHECK(del_timer(&ticker.timer) == 0 && mod_timer_pending(&ticker.timer, jiffies) == 0);
	mod_timer(&ticker.timer, jiffies + 1000 * HZ);
	CHECK(timer_reduce(&ticker.timer, jiffies + 2000 * HZ) == 1 && time_before(ticker.timer.expires, jiffies + 1500 * HZ));
	CHECK(del_timer_sync(&ticker.timer) == 1);
	/* So far that it is no number of nanoseconds. */
	mod_timer(&ticker.timer, jiffies + (1ul << 60));
	CHECK(smp_load_acquire(&ticker.fired) == 1 && cmwq_delayed_work_left_ns(&ticker.timer.cmwq_dwork) > 1ull << 60);
	CHECK(del_timer_sync(&ticker.timer) == 1);
	ticker.rearm = 1;
	ticker.timer.expires = jiffies;
	add_timer(&ticker.timer);
	CHECK_SOON(READ_ONCE(ticker.fired) > 20);
	timer_shutdown_sync(&ticker.timer);
	ticker.fired = 0;
	CHECK(mod_timer(&ticker.timer, jiffies) == 0 && !timer_pending(&ticker.timer));
	msleep(3);
	CHECK(ticker.fired == 0);
}

static struct timer_list shared, late;
static int nr_fired;

static void count(struct timer_list *timer)
{
	CHECK(timer == &shared);
	__atomic_fetch_add(&nr_fired, 1, __ATOMIC_SEQ_CST);
}

static int arm(void *data)
{
	int i;

	for (i = 0; i < 2000; i++) {
		mod_timer(&shared, jiffies + 1000 * HZ);
		timer_reduce(&shared, jiffies + 1);
	}
	return *(int *)data;
}

/* One timer, armed by several threads at the same time. */
static void armed_by_several(void)
{
	struct task_struct *tasks[2];
	int i, result = 4;

	timer_setup(&shared, count, 0);
	for (i = 0; i < 2; i++)
		tasks[i] = kthread_run(arm, &result, "arm/%d", i);
	arm(&result);
	for (i = 0; i < 2; i++) {
		int got = IS_ERR(tasks[i]) ? 0 : kthread_stop(tasks[i]);

		/* One that has not begun never does. */
		CHECK(got == result || got == -EINTR);
	}
	mod_timer(&shared, jiffies);
	CHECK_SOON(!timer_pending(&shared) && READ_ONCE(nr_fired) > 0);
	timer_delete_sync(&shared);
}

static unsigned long start;

static int change(void *unused)
{
	(void)unused;
	while (!kthread_should_stop()) {
		mod_timer_pending(&shared, start + 100 * HZ);
		timer_reduce(&late, start + 500 * HZ);
	}
	return 0;
}

/* What another thread does beside it arms no timer that was deleted, and moves none to a later time. */
static void changed_by_another(void)
{
	struct task_struct *task;
	int i;

	timer_setup(&shared, count, 0);
	timer_setup(&late, count, 0);
	nr_fired = 0;
	start = jiffies;
	task = kthread_run(change, NULL, "change");
	for (i = 0; i < 20000; i++) {
		mod_timer(&shared, start + 1000 * HZ);
		CHECK(timer_delete(&shared) == 1 && !timer_pending(&shared));
		mod_timer(&late, start + 1000 * HZ);
		timer_reduce(&late, start + 300 * HZ);
		CHECK(time_before_eq(READ_ONCE(late.expires), start + 300 * HZ));
		CHECK(cmwq_delayed_work_left_ns(&late.cmwq_dwork) < 301 * NSEC_PER_SEC);
	}
	CHECK(!timer_pending(&shared) && mod_timer_pending(&shared, start) == 0 && !timer_pending(&shared));
	kthread_stop(task);
	CHECK(timer_delete_sync(&late) == 1 && READ_ONCE(nr_fired) == 0);
}

struct config {
	int value, twice;
	struct rcu_head rcu;
};

static struct config *config;
static int freed;
/* Counts the readers that have begun: one that is stopped before it has begun never runs, and answers -EINTR. */
static int begun;

static void free_config(struct rcu_head *head)
{
	struct config *old = container_of(head, struct config, rcu);

	old->value = -1;
	old->twice = 1;
	kfree(old);
	__atomic_fetch_add(&freed, 1, __ATOMIC_SEQ_CST);
}

static int read_config(void *data)
{
	long reads = 0;

	__atomic_fetch_add(&begun, 1, __ATOMIC_SEQ_CST);
	while (!kthread_should_stop()) {
		const struct config *now;

		rcu_read_lock();
		rcu_read_lock();
		now = rcu_dereference(config);
		CHECK(now->value * 2 == now->twice);
		if (++reads % 1024 == 0)
			msleep(1);
		CHECK(now->value * 2 == now->twice);
		rcu_read_unlock();
		CHECK(rcu_read_lock_held());
		rcu_read_unlock();
	}
	CHECK(!rcu_read_lock_held());
	return data != NULL;
}

static struct config *make(int value)
{
	struct config *made = kmalloc_obj(*made);

	made->value = value;
	made->twice = 2 * value;
	return made;
}

static int ran;

static void run(struct work_struct *work)
{
	(void)work;
	__atomic_fetch_add(&ran, 1, __ATOMIC_SEQ_CST);
}

static struct completion go_on, inside;

static int stay_inside(void *data)
{
	rcu_read_lock();
	complete(&inside);
	wait_for_completion(&go_on);
	rcu_read_unlock();
	while (!kthread_should_stop())
		schedule_timeout_uninterruptible(1);
	return data != NULL;
}

static void grace_periods(void)
{
	struct workqueue_struct *wq = alloc_workqueue("rcu", WQ_UNBOUND, 0);
	struct task_struct *readers[2], *task;
	struct rcu_work rwork;
	FILE *usual = stderr;
	char *said;
	size_t len;
	int i;

	RCU_INIT_POINTER(config, make(1));
	for (i = 0; i < 2; i++)
		readers[i] = kthread_run(read_config, NULL, "reader/%d", i);
	CHECK_SOON(READ_ONCE(begun) == 2);
	for (i = 2; i < 302; i++) {
		struct config *old = config;

		rcu_assign_pointer(config, make(i));
		if (i % 3 == 0) {
			call_rcu(&old->rcu, free_config);
		} else if (i % 3 == 1) {
			kfree_rcu(old, rcu);
		} else {
			synchronize_rcu();
			old->value = -1;
			kfree(old);
		}
	}
	for (i = 0; i < 2; i++)
		CHECK(kthread_stop(readers[i]) == 0);
	rcu_barrier();
	CHECK(freed == 100);
	kfree(config);

	/* An item waits for the section that has begun, and is pending meanwhile. */
	init_completion(&go_on);
	init_completion(&inside);
	INIT_RCU_WORK(&rwork, run);
	task = kthread_run(stay_inside, NULL, "inside");
	wait_for_completion(&inside);
	CHECK(queue_rcu_work(wq, &rwork) && !queue_rcu_work(wq, &rwork) && work_pending(&rwork.work));
	msleep(10);
	CHECK(READ_ONCE(ran) == 0);
	complete(&go_on);
	/* It may have run before the flush begins: then there is nothing to wait for. */
	flush_rcu_work(&rwork);
	CHECK(ran == 1 && !flush_rcu_work(&rwork));
	CHECK(to_rcu_work(&rwork.work) == &rwork);
	for (i = 0; i < 200; i++) {
		CHECK(queue_rcu_work(wq, &rwork));
		flush_rcu_work(&rwork);
	}
	CHECK(ran == 201 && kthread_stop(task) == 0);

	/* A disabled one is refused, with one line. */
	disable_work(&rwork.work);
	stderr = open_memstream(&said, &len);
	for (i = 0; i < 2; i++)
		CHECK(!queue_rcu_work(wq, &rwork));
	fclose(stderr);
	stderr = usual;
	CHECK(strstr(said, "disabled") && strchr(said, '\n') == said + len - 1);
	free(said);
	enable_work(&rwork.work);
	destroy_workqueue(wq);
}

struct holder {
	spinlock_t lock;
	int runs;
	struct rcu_work rwork;
	struct completion settled;
};

static void run_holder(struct work_struct *work)
{
	struct holder *holder = container_of(to_rcu_work(work), struct holder, rwork);

	spin_lock(&holder->lock);
	holder->runs++;
	spin_unlock(&holder->lock);
	complete(&holder->settled);
}

static int nr_gone;

static void free_holder(struct work_struct *work)
{
	struct holder *holder = container_of(to_rcu_work(work), struct holder, rwork);

	memset(holder, 0xaa, sizeof(*holder));
	kfree(holder);
	__atomic_fetch_add(&nr_gone, 1, __ATOMIC_SEQ_CST);
}

static struct holder *hold(work_func_t func)
{
	struct holder *holder = kzalloc_obj(*holder);

	spin_lock_init(&holder->lock);
	init_completion(&holder->settled);
	INIT_RCU_WORK(&holder->rwork, func);
	return holder;
}

/* Nobody touches what has an item after the flush, after its function has said that it is settled and is cancelled, or in its function. */
static void freed_at_once(void)
{
	struct workqueue_struct *wq = alloc_workqueue("holders", WQ_UNBOUND, 0);
	struct holder *holder;
	int i;

	for (i = 0; i < 100; i++) {
		holder = hold(run_holder);
		CHECK(queue_rcu_work(wq, &holder->rwork));
		flush_rcu_work(&holder->rwork);
		CHECK(holder->runs == 1);
		kfree(holder);

		holder = hold(run_holder);
		CHECK(queue_rcu_work(wq, &holder->rwork));
		wait_for_completion(&holder->settled);
		cancel_work_sync(&holder->rwork.work);
		CHECK(holder->runs == 1);
		kfree(holder);

		CHECK(queue_rcu_work(wq, &hold(free_holder)->rwork));
	}
	rcu_barrier();
	flush_workqueue(wq);
	CHECK(nr_gone == 100);

	/* Queued again as soon as it is not pending any more, without a flush between. */
	holder = hold(run_holder);
	for (i = 0; i < 200; i++)
		while (!queue_rcu_work(wq, &holder->rwork))
			cond_resched();
	flush_rcu_work(&holder->rwork);
	CHECK(holder->runs == 200);
	kfree(holder);
	destroy_workqueue(wq);
}

int main(void)
{
	timers();
	armed_by_several();
	changed_by_another();
	grace_periods();
	freed_at_once();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waits that are no waits within a read-side section, since what they wait for waits for the section: they warn and return.
 *
 * Seen to fail with: no look at the section in cmwq_rcu_barrier().
 */
#include <linux/kthread.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>

#include "check.h"

static struct rcu_head head;
static struct rcu_work item;
static int called, ran, waited;

static void call(struct rcu_head *rcu)
{
	(void)rcu;
	__atomic_store_n(&called, 1, __ATOMIC_SEQ_CST);
}

static void run(struct work_struct *work)
{
	(void)work;
	__atomic_store_n(&ran, 1, __ATOMIC_SEQ_CST);
}

static int within(void *arg)
{
	rcu_read_lock();
	rcu_read_lock();
	rcu_read_unlock();
	call_rcu(&head, call);
	CHECK(queue_rcu_work(system_dfl_wq, &item));
	rcu_barrier();
	synchronize_rcu();
	flush_rcu_work(&item);
	CHECK(!__atomic_load_n(&called, __ATOMIC_SEQ_CST) && !__atomic_load_n(&ran, __ATOMIC_SEQ_CST));
	rcu_read_unlock();
	__atomic_store_n(&waited, 1, __ATOMIC_SEQ_CST);
	(void)arg;
	return 0;
}

int main(void)
{
	struct task_struct *task;

	INIT_RCU_WORK(&item, run);
	task = kthread_run(within, NULL, "within");
	CHECK(!IS_ERR(task));
	CHECK_SOON(__atomic_load_n(&waited, __ATOMIC_SEQ_CST));
	/* Outside of the section they wait. */
	flush_rcu_work(&item);
	rcu_barrier();
	CHECK(called && ran && kthread_stop(task) == 0);
	return 0;
}

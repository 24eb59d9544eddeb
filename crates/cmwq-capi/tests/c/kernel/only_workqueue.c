/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Code that includes <linux/workqueue.h> alone, and uses what that brings: atomic integers, bits, lists, timers, jiffies, RCU.
 *
 * Seen to fail (it does not compile) without <linux/bitops.h>, <linux/list.h>, <linux/lockdep.h> or <linux/timer.h> in that header, and with macros
 * that drop the key of a lock.
 */
#include <linux/workqueue.h>

#include "check.h"

enum { BUSY, NR_POLLS = 3 };

struct device {
	struct list_head entry;
	unsigned long flags;
	atomic_t nr_polls, nr_runs;
	struct work_struct work;
	struct delayed_work poll;
	struct rcu_work release;
	struct timer_list timer;
	struct lockdep_map map;
};

static LIST_HEAD(devices);

static void run(struct work_struct *work)
{
	struct device *device = from_work(device, work, work);

	CHECK(!test_and_set_bit(BUSY, &device->flags));
	atomic_inc(&device->nr_runs);
	smp_mb__before_atomic();
	clear_bit(BUSY, &device->flags);
}

static void poll(struct work_struct *work)
{
	struct device *device = container_of(to_delayed_work(work), struct device, poll);

	if (atomic_inc_return(&device->nr_polls) < NR_POLLS)
		queue_delayed_work(system_dfl_wq, &device->poll, msecs_to_jiffies(1));
}

static void release(struct work_struct *work)
{
	struct device *device = container_of(to_rcu_work(work), struct device, release);

	atomic_inc(&device->nr_runs);
}

static void expired(struct timer_list *timer)
{
	struct device *device = from_timer(device, timer, timer);

	queue_work(system_dfl_wq, &device->work);
}

int main(void)
{
	static struct device device;
	static struct lock_class_key key;
	struct workqueue_struct *wq;

	lockdep_init_map(&device.map, "device", &key, 0);
	list_add_tail(&device.entry, &devices);
	INIT_WORK(&device.work, run);
	INIT_DELAYED_WORK(&device.poll, poll);
	INIT_RCU_WORK(&device.release, release);
	timer_setup(&device.timer, expired, 0);
	CHECK(schedule_delayed_work(&device.poll, 0));
	mod_timer(&device.timer, jiffies + 1);
	while (atomic_read(&device.nr_polls) < NR_POLLS || atomic_read(&device.nr_runs) < 1)
		cpu_relax();
	CHECK(!timer_delete_sync(&device.timer));
	flush_work(&device.work);
	cancel_delayed_work_sync(&device.poll);
	CHECK(queue_rcu_work(system_dfl_wq, &device.release));
	/* It may have run already. */
	flush_rcu_work(&device.release);
	CHECK(atomic_read(&device.nr_runs) == 2 && !list_empty(&devices));

	wq = alloc_ordered_workqueue_lockdep_map("%s", WQ_MEM_RECLAIM, &device.map, "own map");
	CHECK(wq && queue_work(wq, &device.work));
	destroy_workqueue(wq);
	CHECK(atomic_read(&device.nr_runs) == 3);
	return 0;
}

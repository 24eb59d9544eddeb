/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A driver as it is written for the kernel, with the kernel's includes; only main() at the end is not: a queue of packets under a
 * lock, a worker that drains it, a watchdog, a reset that sleeps, teardown.
 */
#define pr_fmt(fmt) "toynet: " fmt

#include <linux/atomic.h>
#include <linux/bug.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#define TOYNET_PACKETS 500

struct packet {
	struct list_head node;
	u32 len;
};

struct toynet {
	spinlock_t lock;
	struct list_head rx;
	struct workqueue_struct *wq;
	struct work_struct rx_work;
	struct work_struct reset_work;
	struct delayed_work watchdog;
	struct completion reset_done;
	struct mutex config;
	atomic_t handled;
	atomic64_t bytes;
	int beats;
	bool up;
};

static struct toynet *toynet;
static DEFINE_MUTEX(toynet_list_lock);
static DEFINE_SPINLOCK(toynet_stat_lock);
static LIST_HEAD(toynet_list);

static void toynet_rx(struct work_struct *work)
{
	struct toynet *net = container_of(work, struct toynet, rx_work);
	struct packet *packet, *next;
	unsigned long flags;
	LIST_HEAD(batch);

	spin_lock_irqsave(&net->lock, flags);
	list_splice_init(&net->rx, &batch);
	spin_unlock_irqrestore(&net->lock, flags);
	list_for_each_entry_safe(packet, next, &batch, node) {
		list_del(&packet->node);
		atomic_inc(&net->handled);
		atomic64_add(packet->len, &net->bytes);
		kfree(packet);
	}
	WARN_ON(!list_empty(&batch));
}

static void toynet_watchdog(struct work_struct *work)
{
	struct toynet *net = container_of(to_delayed_work(work), struct toynet, watchdog);

	WRITE_ONCE(net->beats, net->beats + 1);
	if (READ_ONCE(net->up))
		queue_delayed_work(net->wq, &net->watchdog, msecs_to_jiffies(1));
}

static void toynet_reset(struct work_struct *work)
{
	struct toynet *net = container_of(work, struct toynet, reset_work);

	mutex_lock(&net->config);
	usleep_range(100, 200);
	mutex_unlock(&net->config);
	complete(&net->reset_done);
}

static int toynet_receive(struct toynet *net, u32 len)
{
	struct packet *packet = kzalloc(sizeof(*packet), GFP_ATOMIC);

	if (unlikely(!packet))
		return -ENOMEM;
	packet->len = len;
	spin_lock_bh(&net->lock);
	list_add_tail(&packet->node, &net->rx);
	spin_unlock_bh(&net->lock);
	queue_work(net->wq, &net->rx_work);
	return 0;
}

static struct toynet *toynet_create(void)
{
	struct toynet *net = kzalloc(sizeof(*net), GFP_KERNEL);

	if (!net)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&net->lock);
	mutex_init(&net->config);
	INIT_LIST_HEAD(&net->rx);
	INIT_WORK(&net->rx_work, toynet_rx);
	INIT_WORK(&net->reset_work, toynet_reset);
	INIT_DELAYED_WORK(&net->watchdog, toynet_watchdog);
	init_completion(&net->reset_done);
	net->wq = alloc_workqueue("toynet%d", WQ_UNBOUND | WQ_MEM_RECLAIM, 0, 0);
	if (!net->wq) {
		kfree(net);
		return ERR_PTR(-ENOMEM);
	}
	WRITE_ONCE(net->up, true);
	queue_delayed_work(net->wq, &net->watchdog, 0);
	return net;
}

static int __init toynet_init(void)
{
	mutex_lock(&toynet_list_lock);
	toynet = toynet_create();
	mutex_unlock(&toynet_list_lock);
	if (IS_ERR(toynet))
		return (int)PTR_ERR(toynet);
	pr_debug("made\n");
	return 0;
}

static void __exit toynet_exit(void)
{
	WRITE_ONCE(toynet->up, false);
	cancel_delayed_work_sync(&toynet->watchdog);
	cancel_work_sync(&toynet->reset_work);
	destroy_workqueue(toynet->wq);
	spin_lock(&toynet_stat_lock);
	pr_info("%d packets, %lld bytes\n", atomic_read(&toynet->handled), atomic64_read(&toynet->bytes));
	spin_unlock(&toynet_stat_lock);
	mutex_destroy(&toynet->config);
	kfree(toynet);
}

module_init(toynet_init);
module_exit(toynet_exit);
MODULE_LICENSE("Dual MIT/Apache-2.0");
MODULE_DESCRIPTION("Work handling of a driver");

int main(void)
{
	u64 start = ktime_get_ns();
	int i;

#ifndef MODULE_INIT_IGNORE_VERMAGIC
#error the header of the system is to be had in the same program
#endif
	if (init_module())
		return 1;
	for (i = 0; i < TOYNET_PACKETS; i++)
		BUG_ON(toynet_receive(toynet, (u32)min(i, 100)));
	schedule_work(&toynet->reset_work);
	if (!wait_for_completion_timeout(&toynet->reset_done, 30 * HZ))
		return 2;
	flush_work(&toynet->rx_work);
	msleep(2);
	if (atomic_read(&toynet->handled) != TOYNET_PACKETS || !list_empty(&toynet->rx) || !list_empty(&toynet_list))
		return 3;
	if (ktime_get_ns() - start < 2 * (u64)NSEC_PER_MSEC)
		return 4;
	flush_delayed_work(&toynet->watchdog);
	if (!READ_ONCE(toynet->beats))
		return 5;
	cleanup_module();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A device in the kernel's manner: its interrupts queue an item that is embedded in it, and a delayed item polls its state. Both
 * find their device by container_of. Tearing down disables first, so that nothing can queue any more.
 */
#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/workqueue.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct device {
	const char *name;
	struct workqueue_struct *wq;
	struct work_struct irq_work;
	struct delayed_work poll_work;
	atomic_t raised;
	int handled;
	atomic_t polls;
};

/* Takes all that was raised since: an interrupt that finds the item pending is seen by that run. */
static void device_irq_work(struct work_struct *work)
{
	struct device *dev = container_of(work, struct device, irq_work);

	dev->handled += atomic_xchg(&dev->raised, 0);
}

static void device_poll(struct work_struct *work)
{
	struct device *dev = container_of(to_delayed_work(work), struct device, poll_work);

	atomic_inc(&dev->polls);
	queue_delayed_work(dev->wq, &dev->poll_work, msecs_to_jiffies(2));
}

static void device_interrupt(struct device *dev)
{
	atomic_inc(&dev->raised);
	queue_work(dev->wq, &dev->irq_work);
}

static struct device *device_create(const char *name)
{
	struct device *dev = (struct device *)calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->name = name;
	dev->wq = alloc_workqueue("dev-%s", WQ_UNBOUND | WQ_MEM_RECLAIM, 0, name);
	if (!dev->wq) {
		free(dev);
		return NULL;
	}
	INIT_WORK(&dev->irq_work, device_irq_work);
	INIT_DELAYED_WORK(&dev->poll_work, device_poll);
	schedule_delayed_work(&dev->poll_work, 1);
	return dev;
}

static void device_remove(struct device *dev)
{
	disable_work_sync(&dev->irq_work);
	cancel_delayed_work_sync(&dev->poll_work);
	destroy_workqueue(dev->wq);
	/* What the last run did not take any more. */
	dev->handled += atomic_xchg(&dev->raised, 0);
}

static void *interrupts(void *arg)
{
	struct device *dev = (struct device *)arg;
	int i;

	for (i = 0; i < 20000; i++)
		device_interrupt(dev);
	return NULL;
}

int main(void)
{
	struct device *dev = device_create("eth0");
	pthread_t threads[2];
	size_t i;
	int polls, status;

	if (!dev)
		return 1;
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		if (pthread_create(&threads[i], NULL, interrupts, dev))
			return 1;
	for (i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < 6000 && atomic_read(&dev->polls) <= 3; i++)
		msleep(10);
	device_remove(dev);
	polls = atomic_read(&dev->polls);
	printf("%s: %d interrupts handled, %s\n", dev->name, dev->handled, polls > 3 ? "polled" : "not polled");
	status = dev->handled == 40000 && polls > 3 ? 0 : 1;
	free(dev);
	return status;
}

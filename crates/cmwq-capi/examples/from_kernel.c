/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * From the kernel: a work item embedded in an object, an ordered workqueue, a delayed item, and tearing down, as a driver writes it. Nothing
 * but the includes knows that this is user space. See docs/adopting.md.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/workqueue.h>
#include <stdio.h>

struct port {
	struct workqueue_struct *wq;
	struct work_struct rx_work;
	struct delayed_work link_work;
	struct completion link_up;
	atomic_t packets;
	int delivered;
};

static void port_rx(struct work_struct *work)
{
	struct port *port = container_of(work, struct port, rx_work);

	port->delivered += atomic_xchg(&port->packets, 0);
}

static void port_link(struct work_struct *work)
{
	complete(&container_of(to_delayed_work(work), struct port, link_work)->link_up);
}

static int port_start(struct port *port)
{
	INIT_WORK(&port->rx_work, port_rx);
	INIT_DELAYED_WORK(&port->link_work, port_link);
	init_completion(&port->link_up);
	atomic_set(&port->packets, 0);
	port->delivered = 0;
	port->wq = alloc_ordered_workqueue("port-%d", WQ_MEM_RECLAIM, 0);
	if (!port->wq)
		return -1;
	queue_delayed_work(port->wq, &port->link_work, msecs_to_jiffies(1));
	return 0;
}

static void port_packet(struct port *port)
{
	atomic_inc(&port->packets);
	/* false: pending already, and that run sees this packet as well. */
	queue_work(port->wq, &port->rx_work);
}

static void port_stop(struct port *port)
{
	cancel_delayed_work_sync(&port->link_work);
	flush_work(&port->rx_work);
	destroy_workqueue(port->wq);
}

int main(void)
{
	static struct port port;

	if (port_start(&port))
		return 1;
	wait_for_completion(&port.link_up);
	for (int i = 0; i < 10000; i++)
		port_packet(&port);
	port_stop(&port);
	printf("%d packets delivered\n", port.delivered);
	return 0;
}

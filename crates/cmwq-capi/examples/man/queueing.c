/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Items that are queued now, on a workqueue on which at most one item may wait; and an item with a
 * timer, which runs at once when the program ends earlier.
 */
#include <cmwq.h>
#include <errno.h>
#include <stdio.h>

#define MINUTE 60000000000ull

static struct cmwq_completion go = CMWQ_COMPLETION_INIT;

static void send_mail(struct cmwq_work *work)
{
	(void)work;
	cmwq_wait_for_completion(&go);
}

static void save(struct cmwq_work *work)
{
	(void)work;
	printf("saved\n");
}

static struct cmwq_work mails[] = {
	CMWQ_WORK_INIT(send_mail), CMWQ_WORK_INIT(send_mail),
	CMWQ_WORK_INIT(send_mail)
};
static struct cmwq_delayed_work autosave = CMWQ_DELAYED_WORK_INIT(save);

int main(void)
{
	struct cmwq_workqueue_options options = CMWQ_WORKQUEUE_OPTIONS_INIT;
	struct cmwq_workqueue *sender, *timers;
	int full = 0;

	options.max_waiting = 1;
	sender = cmwq_alloc_workqueue_with("sender", CMWQ_WQ_UNBOUND, 1,
			&options);
	timers = cmwq_alloc_workqueue("timers", CMWQ_WQ_UNBOUND, 0);
	if (!sender || !timers)
		return 1;
	cmwq_queue_delayed_work_ns(timers, &autosave, MINUTE);
	/* One mail is sent, one waits, and the queue is full. */
	for (int i = 0; i < 3; i++)
		if (cmwq_try_queue_work(sender, &mails[i]) == -ENOBUFS)
			full++;
	printf("the queue was %s\n", full ? "full" : "not full");
	cmwq_complete_all(&go);
	cmwq_destroy_workqueue(sender);
	/* Stops the timer, and queues the item at once. */
	cmwq_flush_delayed_work(&autosave);
	cmwq_destroy_workqueue(timers);
	return 0;
}

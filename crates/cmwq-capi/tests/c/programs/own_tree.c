/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tool with a linux/ tree of its own, whose workqueue is taken from cmwq: compiled with CMWQ_NO_NEIGHBOURS, ours before its own on
 * the include path, or after.
 */
#include <linux/types.h>
#include <linux/workqueue.h>
#include <linux/completion.h>
#include <linux/jiffies.h>

struct request {
	struct list_head entry;
	struct delayed_work dwork;
	struct completion done;
	unsigned long ran_at;
};

static void run(struct work_struct *work)
{
	struct delayed_work *dwork = to_delayed_work(work);
	struct request *request = (struct request *)(void *)((char *)dwork - offsetof(struct request, dwork));

	request->ran_at = jiffies;
	complete(&request->done);
}

int main(void)
{
	struct request request = {.done = {0}};
	u64 start = jiffies;

	INIT_DELAYED_WORK(&request.dwork, run);
	/* Three of its jiffies are 60 ms. */
	schedule_delayed_work(&request.dwork, 3);
	wait_for_completion(&request.done);
	return HZ != 50 || sizeof(gfp_t) != 8 || request.ran_at - start < 3 || request.ran_at - start > 3000;
}

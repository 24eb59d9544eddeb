/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Items that are queued on CPUs which do not exist run all the same, and one warning says so. */
#include <limits.h>
#include <linux/kernel.h>
#include <linux/workqueue.h>
#include <string.h>

#include "check.h"

static int runs, warnings;

static void run(struct work_struct *work)
{
	(void)work;
	__atomic_fetch_add(&runs, 1, __ATOMIC_SEQ_CST);
}

static void hear(const char *text, void *arg)
{
	(void)arg;
	/* Each function says it of the first one. */
	CHECK(strstr(text, "there is no CPU -1;"));
	__atomic_fetch_add(&warnings, 1, __ATOMIC_SEQ_CST);
}

int main(void)
{
	int cpus[] = {-1, INT_MIN, 5000, WORK_CPU_UNBOUND - 1, WORK_CPU_UNBOUND + 1, INT_MAX};
	int count = (int)ARRAY_SIZE(cpus), i;
	struct workqueue_struct *wqs[] = {alloc_workqueue("percpu", WQ_PERCPU, 0), alloc_workqueue("unbound", WQ_UNBOUND, 0),
					  alloc_ordered_workqueue("ordered", 0)};
	size_t q;

	cmwq_set_warning_handler(hear, NULL);
	for (q = 0; q < ARRAY_SIZE(wqs); q++) {
		for (i = 0; i < count; i++) {
			struct work_struct work;
			struct delayed_work later, moved;

			INIT_WORK(&work, run);
			INIT_DELAYED_WORK(&later, run);
			INIT_DELAYED_WORK(&moved, run);
			CHECK(queue_work_on(cpus[i], wqs[q], &work));
			CHECK(queue_delayed_work_on(cpus[i], wqs[q], &later, 1000000));
			CHECK(!queue_delayed_work_on(cpus[i], wqs[q], &later, 1));
			CHECK(mod_delayed_work_on(cpus[i], wqs[q], &later, 1));
			CHECK(!mod_delayed_work_on(cpus[i], wqs[q], &moved, 0));
			CHECK_SOON(!work_busy(&later.work));
			flush_work(&work);
			flush_delayed_work(&moved);
		}
		destroy_workqueue(wqs[q]);
	}
	CHECK(runs == 3 * 3 * count);
	/* One for each of the three functions. */
	CHECK(warnings == 3);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For ThreadSanitizer: a program with a race, and with -DCMWQ_OWN_SUPPRESSIONS the suppression of it. */
#include <linux/workqueue.h>
#include <stdlib.h>

#ifdef CMWQ_OWN_SUPPRESSIONS
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return CMWQ_TOLD_SUPPRESSION "\nrace:write_in_parallel\n";
}
#endif

static long written;
static int nr_writers;

static __attribute__((__noinline__)) void write_in_parallel(void)
{
	int i;

	/* Both are here at the same time. */
	__atomic_fetch_add(&nr_writers, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&nr_writers, __ATOMIC_RELAXED) < 2)
		;
	for (i = 0; i < 1000; i++)
		*(volatile long *)&written += 1;
}

static void run(struct work_struct *work)
{
	write_in_parallel();
	free(work);
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("own", WQ_UNBOUND, 0);
	struct work_struct *work = (struct work_struct *)malloc(sizeof(*work));

	INIT_WORK(work, run);
	if (!wq || !queue_work(wq, work))
		return 1;
	write_in_parallel();
	destroy_workqueue(wq);
	return 0;
}

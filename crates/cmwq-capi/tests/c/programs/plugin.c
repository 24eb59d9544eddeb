/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A shared object that uses libcmwq: several of these use one. Built with -DNAME="...". */
#include <linux/workqueue.h>
#include <stdatomic.h>

static atomic_int runs;

static void run(struct work_struct *work)
{
	(void)work;
	runs++;
}

static struct workqueue_struct *loaded;

/* In the first plugin the library's first use, below the loader's lock, which every thread takes that starts. */
__attribute__((constructor)) static void load(void)
{
	loaded = alloc_workqueue("%s-loaded", WQ_UNBOUND | WQ_MEM_RECLAIM, 0, NAME);
}

__attribute__((destructor)) static void unload(void)
{
	destroy_workqueue(loaded);
}

int plugin_work(struct workqueue_struct **shared)
{
	struct workqueue_struct *wq = alloc_workqueue("%s", WQ_UNBOUND, 0, NAME);
	struct work_struct work;
	int i;

	if (!wq || !loaded)
		return -1;
	INIT_WORK(&work, run);
	for (i = 0; i < 100; i++) {
		queue_work(wq, &work);
		flush_work(&work);
	}
	/* All see the same system workqueue. */
	*shared = system_percpu_wq;
	queue_work(*shared, &work);
	flush_work(&work);
	destroy_workqueue(wq);
	return runs;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A file system's queues: what is written is compressed in parallel and submitted in the order in which it was queued; the limit follows the backlog; an
 * unmount waits for all that is under way. The design is this test's own; the includes and names are those that such code has in the kernel.
 *
 * Seen to fail with: submitting what is done but not the first; a count that the unmount does not wait for.
 */
#include <linux/bitops.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/mempool.h>
#include <linux/percpu-refcount.h>
#include <linux/percpu.h>
#include <linux/ratelimit.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "check.h"

enum { WORK_DONE, WORK_ORDER_DONE };
enum { NO_THRESHOLD = -1, DFT_THRESHOLD = 32 };

struct fs_workqueue {
	struct workqueue_struct *normal_wq;
	/* In the order in which it was queued. */
	struct list_head ordered_list;
	spinlock_t list_lock, thres_lock;
	atomic_t pending;
	int limit_active, current_active, thresh;
	unsigned int count;
};

struct fs_work;
typedef void (*fs_func_t)(struct fs_work *work);
typedef void (*fs_ordered_func_t)(struct fs_work *work, bool do_free);

struct fs_work {
	fs_func_t func;
	fs_ordered_func_t ordered_func;
	struct work_struct normal_work;
	struct list_head ordered_list;
	struct fs_workqueue *wq;
	unsigned long flags;
};

static void normal_work_helper(struct work_struct *item);

static struct fs_workqueue *fs_alloc_workqueue(const char *name, unsigned int flags, int limit_active, int thresh)
{
	struct fs_workqueue *wq = kzalloc(sizeof(*wq), GFP_KERNEL);

	if (!wq)
		return NULL;
	wq->limit_active = limit_active;
	atomic_set(&wq->pending, 0);
	wq->thresh = thresh ? thresh : DFT_THRESHOLD;
	wq->current_active = wq->thresh == NO_THRESHOLD ? limit_active : 1;
	wq->normal_wq = alloc_workqueue("fs-%s", flags, wq->current_active, name);
	if (!wq->normal_wq) {
		kfree(wq);
		return NULL;
	}
	INIT_LIST_HEAD(&wq->ordered_list);
	spin_lock_init(&wq->list_lock);
	spin_lock_init(&wq->thres_lock);
	return wq;
}

static void fs_init_work(struct fs_work *work, fs_func_t func, fs_ordered_func_t ordered_func)
{
	work->func = func;
	work->ordered_func = ordered_func;
	INIT_WORK(&work->normal_work, normal_work_helper);
	INIT_LIST_HEAD(&work->ordered_list);
	work->flags = 0;
}

static void fs_queue_work(struct fs_workqueue *wq, struct fs_work *work)
{
	unsigned long flags;

	work->wq = wq;
	if (wq->thresh != NO_THRESHOLD)
		atomic_inc(&wq->pending);
	if (work->ordered_func) {
		spin_lock_irqsave(&wq->list_lock, flags);
		list_add_tail(&work->ordered_list, &wq->ordered_list);
		spin_unlock_irqrestore(&wq->list_lock, flags);
	}
	queue_work(wq->normal_wq, &work->normal_work);
}

/* A worker more where the backlog is long, one less where it is short; looked at for every fourth item. */
static void adapt_limit(struct fs_workqueue *wq)
{
	int new_active, pending;
	bool changes = false;

	if (wq->thresh == NO_THRESHOLD)
		return;
	atomic_dec(&wq->pending);
	spin_lock(&wq->thres_lock);
	wq->count = (wq->count + 1) % 4;
	if (!wq->count) {
		pending = atomic_read(&wq->pending);
		new_active = wq->current_active + (pending > wq->thresh) - (pending < wq->thresh / 2);
		new_active = clamp_val(new_active, 1, wq->limit_active);
		changes = new_active != wq->current_active;
		WRITE_ONCE(wq->current_active, new_active);
	}
	new_active = wq->current_active;
	spin_unlock(&wq->thres_lock);
	if (changes)
		workqueue_set_max_active(wq->normal_wq, new_active);
}

static void run_ordered_work(struct fs_workqueue *wq, struct fs_work *self)
{
	struct fs_work *work;
	bool free_self = false;
	unsigned long flags;

	for (;;) {
		spin_lock_irqsave(&wq->list_lock, flags);
		work = list_first_entry_or_null(&wq->ordered_list, struct fs_work, ordered_list);
		if (!work || !test_bit(WORK_DONE, &work->flags))
			break;
		/* What other threads wrote before they set the bit. */
		smp_rmb();
		if (test_and_set_bit(WORK_ORDER_DONE, &work->flags))
			break;
		spin_unlock_irqrestore(&wq->list_lock, flags);
		work->ordered_func(work, false);
		spin_lock_irqsave(&wq->list_lock, flags);
		list_del(&work->ordered_list);
		spin_unlock_irqrestore(&wq->list_lock, flags);
		/* An item that is freed while it runs could be made again at its address, and would be taken for one that runs. */
		if (work == self)
			free_self = true;
		else
			work->ordered_func(work, true);
	}
	spin_unlock_irqrestore(&wq->list_lock, flags);
	if (free_self)
		self->ordered_func(self, true);
}

static void normal_work_helper(struct work_struct *item)
{
	struct fs_work *work = container_of(item, struct fs_work, normal_work);
	struct fs_workqueue *wq = work->wq;
	bool ordered = work->ordered_func != NULL;

	adapt_limit(wq);
	work->func(work);
	if (!ordered)
		return;
	/* The work may be freed as soon as the bit is seen. */
	smp_mb__before_atomic();
	set_bit(WORK_DONE, &work->flags);
	run_ordered_work(wq, work);
}

/* ---- its user: a file system that writes extents ---- */

enum { NR_EXTENTS = 20000, RESERVE = 4, BACKLOG = 500 };

struct extent {
	struct fs_work work;
	struct hlist_node node;
	unsigned int number, sum;
};

struct mount {
	struct percpu_ref writers;
	struct completion unmounted;
	struct fs_workqueue *delalloc, *endio;
	mempool_t *extents;
	struct mutex inodes;
	DECLARE_HASHTABLE(in_flight, 6);
	unsigned int next_submitted;
};

static DEFINE_PER_CPU(unsigned long, compressed);
static struct mount mount;
static atomic_t nr_ended = ATOMIC_INIT(0);
static int most_active;
static DECLARE_COMPLETION(backlog);
static DECLARE_COMPLETION(written);

static void compress(struct fs_work *work)
{
	struct extent *extent = container_of(work, struct extent, work);
	unsigned int nofs = memalloc_nofs_save(), i, active;

	/* The limit is one at first: all that is queued until then waits behind it. */
	if (!extent->number)
		wait_for_completion(&backlog);
	for (i = 0; i < extent->number % 16 * 50; i++)
		extent->sum = extent->sum * 31 + i;
	this_cpu_inc(compressed);
	active = (unsigned int)READ_ONCE(mount.delalloc->current_active);
	if ((int)active > READ_ONCE(most_active))
		WRITE_ONCE(most_active, (int)active);
	memalloc_nofs_restore(nofs);
}

static void submit(struct fs_work *work, bool do_free)
{
	struct extent *extent = container_of(work, struct extent, work);

	if (do_free) {
		mempool_free(extent, mount.extents);
		percpu_ref_put(&mount.writers);
		return;
	}
	CHECK(extent->number == mount.next_submitted++);
	scoped_guard(mutex, &mount.inodes)
		hash_del(&extent->node);
}

static void end_io(struct fs_work *work)
{
	atomic_inc(&nr_ended);
	kfree(work);
}

static void released(struct percpu_ref *ref)
{
	complete(&container_of(ref, struct mount, writers)->unmounted);
}

static int writer(void *data)
{
	static DEFINE_RATELIMIT_STATE(slow, HZ, 1);
	unsigned int i;

	(void)data;
	for (i = 0; i < NR_EXTENTS; i++) {
		struct extent *extent;
		struct fs_work *end = kmalloc(sizeof(*end), GFP_NOFS);

		CHECK(end && percpu_ref_tryget_live(&mount.writers));
		extent = mempool_alloc(mount.extents, GFP_NOFS | __GFP_ZERO);
		extent->number = i;
		fs_init_work(&extent->work, compress, submit);
		mutex_lock(&mount.inodes);
		hash_add(mount.in_flight, &extent->node, extent->number);
		mutex_unlock(&mount.inodes);
		fs_queue_work(mount.delalloc, &extent->work);
		fs_init_work(end, end_io, NULL);
		fs_queue_work(mount.endio, end);
		if (i == BACKLOG)
			complete(&backlog);
		if (atomic_read(&mount.delalloc->pending) > 1000 && __ratelimit(&slow))
			cond_resched();
	}
	complete(&written);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 17;
}

int main(void)
{
	struct kmem_cache *cache = KMEM_CACHE(extent, SLAB_RECLAIM_ACCOUNT);
	struct task_struct *task;
	unsigned long all = 0;
	int cpu;

	init_completion(&mount.unmounted);
	mutex_init(&mount.inodes);
	hash_init(mount.in_flight);
	mount.extents = mempool_create_slab_pool(RESERVE, cache);
	mount.delalloc = fs_alloc_workqueue("delalloc", WQ_UNBOUND | WQ_FREEZABLE | WQ_MEM_RECLAIM, 8, 0);
	mount.endio = fs_alloc_workqueue("endio", WQ_UNBOUND | WQ_FREEZABLE | WQ_MEM_RECLAIM, 8, NO_THRESHOLD);
	CHECK(mount.extents && mount.delalloc && mount.endio);
	CHECK(percpu_ref_init(&mount.writers, released, 0, GFP_KERNEL) == 0);
	task = kthread_run(writer, NULL, "fs-writer");
	CHECK(!IS_ERR(task));
	wait_for_completion(&written);
	CHECK(kthread_stop(task) == 17);
	percpu_ref_kill(&mount.writers);
	wait_for_completion(&mount.unmounted);
	percpu_ref_exit(&mount.writers);
	CHECK(mount.next_submitted == NR_EXTENTS && hash_empty(mount.in_flight));
	drain_workqueue(mount.endio->normal_wq);
	CHECK(atomic_read(&nr_ended) == NR_EXTENTS && most_active > 1);
	for_each_possible_cpu(cpu)
		all += per_cpu(compressed, cpu);
	CHECK(all == NR_EXTENTS && atomic_read(&mount.delalloc->pending) == 0);
	destroy_workqueue(mount.delalloc->normal_wq);
	destroy_workqueue(mount.endio->normal_wq);
	kfree(mount.delalloc);
	kfree(mount.endio);
	mempool_destroy(mount.extents);
	kmem_cache_destroy(cache);
	return 0;
}

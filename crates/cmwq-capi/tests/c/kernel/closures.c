/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Closures: steps of an operation that each say which comes next, with a count of what the step waits for, which lie over an item. The design is this
 * test's own; the includes and names are those that such code has in the kernel.
 *
 * Seen to fail with: the next step not set; no reference of the parent.
 */
#include <linux/bug.h>
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/llist.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/debug.h>
#include <linux/seq_file.h>
#include <linux/workqueue.h>

#include "check.h"

struct closure;
struct closure_waitlist {
	struct llist_head list;
};

struct closure {
	union {
		struct {
			struct workqueue_struct *wq;
			struct closure_waitlist *waits_on;
			struct llist_node list;
			work_func_t fn;
		};
		struct work_struct work;
	};
	struct closure *parent;
	atomic_t remaining;
};

#define REF_MASK 0xffff
#define WAITING (1 << 16)

static inline void closure_get(struct closure *cl)
{
	BUG_ON((atomic_inc_return(&cl->remaining) & REF_MASK) <= 1);
}

static void closure_queue(struct closure *cl)
{
	struct workqueue_struct *wq = cl->wq;

	BUILD_BUG_ON(offsetof(struct closure, fn) != offsetof(struct work_struct, func));
	if (wq) {
		INIT_WORK(&cl->work, cl->work.func);
		BUG_ON(!queue_work(wq, &cl->work));
	} else {
		cl->fn(&cl->work);
	}
}

static void closure_put(struct closure *cl)
{
	int left = atomic_sub_return_release(1, &cl->remaining);

	BUG_ON(left < 0);
	if (left & REF_MASK)
		return;
	smp_acquire__after_ctrl_dep();
	WARN_ON(left & WAITING);
	if (cl->fn) {
		atomic_set(&cl->remaining, 1);
		closure_queue(cl);
	} else {
		struct closure *parent = cl->parent;

		if (parent)
			closure_put(parent);
	}
}

static void closure_init(struct closure *cl, struct closure *parent)
{
	cl->fn = NULL;
	cl->wq = NULL;
	cl->parent = parent;
	if (parent)
		closure_get(parent);
	atomic_set(&cl->remaining, 1);
}

/* The next step, on `wq`; NULL: on the thread that ends this one. The caller returns. */
static inline void continue_at(struct closure *cl, work_func_t fn, struct workqueue_struct *wq)
{
	cl->wq = wq;
	cl->fn = fn;
	/* Between dropping the count and running the next step there is a barrier. */
	smp_mb__before_atomic();
	closure_put(cl);
}

static bool closure_wait(struct closure_waitlist *list, struct closure *cl)
{
	if (atomic_read(&cl->remaining) & WAITING)
		return false;
	atomic_add(WAITING + 1, &cl->remaining);
	llist_add(&cl->list, &list->list);
	return true;
}

/* In the order in which they came. */
static void closure_wake_up(struct closure_waitlist *wait)
{
	struct llist_node *list = llist_reverse_order(llist_del_all(&wait->list));
	struct closure *cl, *next;

	llist_for_each_entry_safe(cl, next, list, list) {
		atomic_sub(WAITING, &cl->remaining);
		closure_put(cl);
	}
}

struct closure_sync {
	struct closure cl;
	struct task_struct *task;
	int done;
};

static void sync_done(struct work_struct *work)
{
	struct closure_sync *sync = container_of(work, struct closure_sync, cl.work);
	struct task_struct *task;

	rcu_read_lock();
	task = READ_ONCE(sync->task);
	get_task_struct(task);
	smp_store_release(&sync->done, 1);
	wake_up_process(task);
	put_task_struct(task);
	rcu_read_unlock();
}

static void __sched closure_sync(struct closure_sync *sync)
{
	sync->task = current;
	continue_at(&sync->cl, sync_done, NULL);
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		if (smp_load_acquire(&sync->done))
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	/* What sync_done() does with the memory has ended. */
	synchronize_rcu();
}
EXPORT_SYMBOL(closure_sync);

/* ---- its user: reads, each of three steps, that wait for a bucket in between ---- */

enum { NR_READS = 4000 };

struct read {
	struct closure cl;
	int number, step;
};

static struct workqueue_struct *wq;
static struct closure_waitlist bucket;
static struct read reads[NR_READS];
static atomic_t nr_waited = ATOMIC_INIT(0), nr_done = ATOMIC_INIT(0);

static void read_done(struct work_struct *work)
{
	struct read *read = container_of(work, struct read, cl.work);

	CHECK(read->step++ == 2);
	atomic_inc(&nr_done);
	continue_at(&read->cl, NULL, NULL);
}

static void read_issue(struct work_struct *work)
{
	struct read *read = container_of(work, struct read, cl.work);

	CHECK(read->step++ == 1);
	continue_at(&read->cl, read_done, read->number % 2 ? wq : NULL);
}

static void read_begin(struct work_struct *work)
{
	struct read *read = container_of(work, struct read, cl.work);

	CHECK(read->step++ == 0);
	if (read->number % 4 == 0) {
		CHECK(closure_wait(&bucket, &read->cl));
		atomic_inc(&nr_waited);
	}
	continue_at(&read->cl, read_issue, wq);
}

static int reads_show(struct seq_file *seq, void *data)
{
	(void)data;
	seq_printf(seq, "%d reads\n", atomic_read(&nr_done));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(reads);

int main(void)
{
	struct closure_sync all;
	struct seq_file seq;
	int i;

	wq = alloc_workqueue("closures", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	CHECK(wq);
	init_llist_head(&bucket.list);
	/* Once on one list; here nobody wakes it in between. */
	closure_init(&reads[0].cl, NULL);
	CHECK(closure_wait(&bucket, &reads[0].cl) && !closure_wait(&bucket, &reads[0].cl));
	closure_wake_up(&bucket);
	CHECK(atomic_read(&reads[0].cl.remaining) == 1);
	memset(&all, 0, sizeof(all));
	closure_init(&all.cl, NULL);
	for (i = 0; i < NR_READS; i++) {
		reads[i].number = i;
		closure_init(&reads[i].cl, &all.cl);
		continue_at(&reads[i].cl, read_begin, wq);
		if (i % 64 == 0)
			closure_wake_up(&bucket);
	}
	CHECK_SOON(atomic_read(&nr_waited) == NR_READS / 4);
	closure_wake_up(&bucket);
	closure_sync(&all);
	CHECK(atomic_read(&nr_done) == NR_READS);
	memset(&seq, 0, sizeof(seq));
	CHECK(reads_fops.cmwq_show(&seq, NULL) == 0 && !strcmp(seq.buf, "4000 reads\n"));
	free(seq.buf);
	CHECK(IS_ERR(debugfs_create_file("reads", 0400, NULL, NULL, &reads_fops)));
	destroy_workqueue(wq);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A runner of calls that begin in order and end in any: each has a number (a cookie), and a caller waits until all before a number have ended. As such
 * code is written for the kernel, with its includes; the design is this test's own.
 *
 * Seen to fail with: no call that wakes the waiters.
 */
#include <linux/atomic.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/topology.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "check.h"

typedef u64 runner_cookie_t;
typedef void (*runner_func_t)(void *data, runner_cookie_t cookie);

/* Calls that are waited for together. */
struct runner_domain {
	struct list_head pending;
	/* Whether runner_wait_all() waits for it. */
	unsigned registered : 1;
};

#define RUNNER_DOMAIN(name) struct runner_domain name = {.pending = LIST_HEAD_INIT(name.pending), .registered = 1}
#define RUNNER_DOMAIN_EXCLUSIVE(name) struct runner_domain name = {.pending = LIST_HEAD_INIT(name.pending), .registered = 0}

struct call {
	struct list_head domain_list, global_list;
	struct work_struct work;
	runner_cookie_t cookie;
	runner_func_t func;
	void *data;
	struct runner_domain *domain;
};

#define NO_COOKIE (~0ull)
#define MOST_CALLS 64

static RUNNER_DOMAIN(default_domain);
static LIST_HEAD(all_pending);
static DEFINE_SPINLOCK(runner_lock);
static DECLARE_WAIT_QUEUE_HEAD(call_done);
static atomic_t nr_calls = ATOMIC_INIT(0), nr_at_once = ATOMIC_INIT(0);
static runner_cookie_t next_cookie = 1;
static struct workqueue_struct *runner_wq;

static runner_cookie_t lowest_pending(struct runner_domain *domain)
{
	struct call *first;
	runner_cookie_t lowest = NO_COOKIE;
	unsigned long flags;

	spin_lock_irqsave(&runner_lock, flags);
	if (domain)
		first = list_first_entry_or_null(&domain->pending, struct call, domain_list);
	else
		first = list_first_entry_or_null(&all_pending, struct call, global_list);
	if (first)
		lowest = first->cookie;
	spin_unlock_irqrestore(&runner_lock, flags);
	return lowest;
}

static void run_call(struct work_struct *work)
{
	struct call *call = container_of(work, struct call, work);
	ktime_t began = ktime_get();
	unsigned long flags;

	pr_debug("call %lli begins at pid %i\n", (long long)call->cookie, task_pid_nr(current));
	call->func(call->data, call->cookie);
	pr_debug("call %lli took %lld us\n", (long long)call->cookie, (long long)ktime_us_delta(ktime_get(), began));

	spin_lock_irqsave(&runner_lock, flags);
	list_del_init(&call->domain_list);
	list_del_init(&call->global_list);
	/* Under the lock: a waiter that finds the lists empty finds no call counted. */
	atomic_dec(&nr_calls);
	spin_unlock_irqrestore(&runner_lock, flags);
	kfree(call);
	wake_up(&call_done);
}

static runner_cookie_t runner_schedule_node(runner_func_t func, void *data, int node, struct runner_domain *domain)
{
	struct call *call = kzalloc(sizeof(*call), GFP_ATOMIC);
	runner_cookie_t cookie;
	unsigned long flags;

	/* Without memory, or with too many of them, the caller runs it. */
	if (!call || atomic_read(&nr_calls) >= MOST_CALLS) {
		kfree(call);
		spin_lock_irqsave(&runner_lock, flags);
		cookie = next_cookie++;
		spin_unlock_irqrestore(&runner_lock, flags);
		atomic_inc(&nr_at_once);
		func(data, cookie);
		return cookie;
	}
	INIT_LIST_HEAD(&call->domain_list);
	INIT_LIST_HEAD(&call->global_list);
	INIT_WORK(&call->work, run_call);
	call->func = func;
	call->data = data;
	call->domain = domain;

	spin_lock_irqsave(&runner_lock, flags);
	cookie = call->cookie = next_cookie++;
	list_add_tail(&call->domain_list, &domain->pending);
	if (domain->registered)
		list_add_tail(&call->global_list, &all_pending);
	atomic_inc(&nr_calls);
	spin_unlock_irqrestore(&runner_lock, flags);
	WARN_ON(!queue_work_node(node, runner_wq, &call->work));
	return cookie;
}
EXPORT_SYMBOL_GPL(runner_schedule_node);

/* Waits for all with smaller numbers. */
static void runner_wait(runner_cookie_t cookie, struct runner_domain *domain)
{
	wait_event(call_done, lowest_pending(domain) >= cookie);
}

/* Whether the caller is one of the calls. */
static bool in_call(void)
{
	struct work_struct *work = current_work();

	return work && work->func == run_call;
}

/* ---- its user ---- */

enum { NR_CALLERS = 3, CALLS = 3000 };

static RUNNER_DOMAIN_EXCLUSIVE(own_domain);
static u8 ended[(NR_CALLERS + 1) * CALLS + 2];
static atomic_t nr_ended = ATOMIC_INIT(0), nr_in_call = ATOMIC_INIT(0);

static void end(void *data, runner_cookie_t cookie)
{
	CHECK(cookie && cookie < ARRAY_SIZE(ended) && !ended[cookie]);
	CHECK(data == &nr_ended);
	if (cookie % 97 == 0)
		schedule_timeout_uninterruptible(1);
	atomic_add(in_call(), &nr_in_call);
	smp_store_release(&ended[cookie], 1);
	atomic_inc(&nr_ended);
}

static void caller(struct work_struct *unused)
{
	runner_cookie_t last = 0;
	int i;

	(void)unused;
	for (i = 0; i < CALLS; i++)
		last = runner_schedule_node(end, &nr_ended, NUMA_NO_NODE, &default_domain);
	runner_wait(last + 1, &default_domain);
	CHECK(smp_load_acquire(&ended[last]));
}

static int __init runner_init(void)
{
	struct work_struct callers[NR_CALLERS];
	struct workqueue_struct *wq = alloc_workqueue("callers", WQ_UNBOUND, 0);
	runner_cookie_t last = 0;
	int i;

	runner_wq = alloc_workqueue("runner", WQ_UNBOUND, 0);
	if (!wq || !runner_wq)
		return -ENOMEM;
	for (i = 0; i < NR_CALLERS; i++) {
		INIT_WORK_ONSTACK(&callers[i], caller);
		queue_work(wq, &callers[i]);
	}
	for (i = 0; i < CALLS; i++)
		last = runner_schedule_node(end, &nr_ended, numa_node_id(), &own_domain);
	runner_wait(NO_COOKIE, &own_domain);
	CHECK(list_empty(&own_domain.pending) && ended[last]);
	for (i = 0; i < NR_CALLERS; i++) {
		flush_work(&callers[i]);
		destroy_work_on_stack(&callers[i]);
	}
	runner_wait(NO_COOKIE, NULL);
	CHECK(atomic_read(&nr_ended) == (NR_CALLERS + 1) * CALLS && atomic_read(&nr_calls) == 0);
	/* Of all that were not run at once; callers on a worker are on one of another queue. */
	CHECK(atomic_read(&nr_in_call) == (NR_CALLERS + 1) * CALLS - atomic_read(&nr_at_once) && !in_call());
	destroy_workqueue(wq);
	destroy_workqueue(runner_wq);
	return 0;
}

static void __exit runner_exit(void)
{
}

module_init(runner_init);
module_exit(runner_exit);
MODULE_LICENSE("Dual MIT/Apache-2.0");

int main(void)
{
	int failed = init_module();

	cleanup_module();
	return failed;
}

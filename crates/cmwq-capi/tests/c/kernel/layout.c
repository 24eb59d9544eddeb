/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A structure that lays its own fields over an item's, as a closure library does; and what code looks at in an item. */
#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/workqueue.h>
#include <string.h>

#include "check.h"

struct closure {
	union {
		struct {
			struct workqueue_struct *wq;
			void *waiting[2];
			work_func_t fn;
		};
		struct work_struct work;
	};
	int ran;
};

static_assert(offsetof(struct closure, fn) == offsetof(struct work_struct, func), "it lies over the function");
static_assert(offsetof(struct work_struct, func) == 24, "where the kernel has it");
static_assert(sizeof(((struct work_struct *)NULL)->entry) == 2 * sizeof(void *), "two links");

static void finish(struct work_struct *work)
{
	struct closure *closure = container_of(work, struct closure, work);

	CHECK(closure->fn == finish);
	closure->ran++;
}

static void continue_at(struct closure *closure, work_func_t fn, struct workqueue_struct *wq)
{
	closure->wq = wq;
	closure->fn = fn;
	INIT_WORK(&closure->work, closure->work.func);
	CHECK(queue_work(wq, &closure->work));
}

int main(void)
{
	struct workqueue_struct *wq = alloc_workqueue("closures", WQ_UNBOUND, 0);
	struct closure closure;
	struct delayed_work dwork;
	unsigned long before, after;
	int i;

	memset(&closure, 0, sizeof(closure));
	for (i = 0; i < 100; i++) {
		continue_at(&closure, finish, wq);
		flush_work(&closure.work);
	}
	CHECK(closure.ran == 100);

	INIT_DELAYED_WORK(&dwork, finish);
	CHECK(cmwq_delayed_work_left_ns(cmwq_of_delayed(&dwork)) == 0);
	CHECK(atomic_long_read(&dwork.work.data) == 0);
	before = jiffies;
	CHECK(queue_delayed_work(wq, &dwork, 100 * HZ));
	after = jiffies;
	CHECK(*work_data_bits(&dwork.work) & WORK_STRUCT_PENDING);
	CHECK(time_in_range(dwork.timer.expires, before + 100 * HZ, after + 100 * HZ));
	CHECK(cmwq_delayed_work_left_ns(cmwq_of_delayed(&dwork)) > 30000000000ull);
	before = jiffies;
	CHECK(mod_delayed_work(wq, &dwork, 50 * HZ));
	after = jiffies;
	CHECK(time_in_range(dwork.timer.expires, before + 50 * HZ, after + 50 * HZ));
	CHECK(cmwq_delayed_work_left_ns(cmwq_of_delayed(&dwork)) <= 50000000000ull);
	CHECK(cancel_delayed_work_sync(&dwork));
	CHECK(cmwq_delayed_work_left_ns(cmwq_of_delayed(&dwork)) == 0);
	CHECK(!(*work_data_bits(&dwork.work) & WORK_STRUCT_PENDING));
	destroy_workqueue(wq);
	return 0;
}

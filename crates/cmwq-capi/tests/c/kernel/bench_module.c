/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A benchmark as a module: parameters, pinned kernel threads, one item each, the scope written to the queue's file, sorted latencies. */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "check.h"

#define NAME "bench_wq"
#define SCOPE "/sys/bus/workqueue/devices/" NAME "/affinity_scope"

static int items = 50000;
module_param(items, int, 0444);
MODULE_PARM_DESC(items, "items of each thread");
static unsigned int most_threads;
module_param(most_threads, uint, 0444);
static bool quiet;
module_param(quiet, bool, 0644);
static char *scopes = "cpu";
module_param(scopes, charp, 0444);

struct producer {
	struct completion done;
	struct work_struct work;
	u64 *latencies;
	struct task_struct *task;
};

static struct workqueue_struct *wq;
static DECLARE_COMPLETION(all_done);
static DECLARE_COMPLETION(start);
static atomic_t left;

static void bench_work(struct work_struct *work)
{
	struct producer *producer = from_work(producer, work, work);

	complete(&producer->done);
}

static int produce(void *data)
{
	struct producer *producer = (struct producer *)data;
	int i;

	wait_for_completion(&start);
	for (i = 0; i < items; i++) {
		ktime_t before;

		reinit_completion(&producer->done);
		INIT_WORK(&producer->work, bench_work);
		before = ktime_get();
		queue_work(wq, &producer->work);
		producer->latencies[i] = (u64)ktime_to_ns(ktime_sub(ktime_get(), before));
		wait_for_completion(&producer->done);
	}
	if (atomic_dec_and_test(&left))
		complete(&all_done);
	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (!kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);
	}
	return 0;
}

static int ascending(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static int set_scope(const char *scope)
{
	struct file *file = filp_open(SCOPE, O_WRONLY, 0);
	loff_t at = 0;
	ssize_t written;

	if (IS_ERR(file))
		return (int)PTR_ERR(file);
	written = kernel_write(file, scope, strlen(scope), &at);
	filp_close(file, NULL);
	return written < 0 ? (int)written : 0;
}

static int run(const char *scope)
{
	unsigned int n = min_t(unsigned int, num_online_cpus(), most_threads), t = 0;
	struct producer *producers = kcalloc(n, sizeof(*producers), GFP_KERNEL);
	u64 *all = (u64 *)kvmalloc_array(n, (size_t)items * sizeof(u64), GFP_KERNEL), total = (u64)n * (u64)items;
	char text[64] = "";
	struct file *file;
	loff_t at = 0;
	int cpu;

	CHECK(producers && all && set_scope(scope) == 0);
	file = filp_open(SCOPE, O_RDONLY, 0);
	CHECK(!IS_ERR(file) && kernel_read(file, text, sizeof(text) - 1, &at) > 0 && !strncmp(text, scope, strlen(scope)));
	filp_close(file, NULL);
	reinit_completion(&start);
	reinit_completion(&all_done);
	atomic_set(&left, (int)n);
	for_each_online_cpu(cpu) {
		struct producer *producer = &producers[t];

		if (t == n)
			break;
		init_completion(&producer->done);
		producer->latencies = all + t * (unsigned int)items;
		producer->task = kthread_create(produce, producer, "bench/%d", cpu);
		CHECK(!IS_ERR(producer->task));
		kthread_bind(producer->task, (unsigned int)cpu);
		wake_up_process(producer->task);
		t++;
	}
	complete_all(&start);
	CHECK(wait_for_completion_timeout(&all_done, 120 * HZ));
	for (t = 0; t < n; t++)
		CHECK(kthread_stop(producers[t].task) == 0);
	sort(all, total, sizeof(*all), ascending, NULL);
	if (!quiet)
		pr_info("%s: p50=%llu ns\n", scope, all[div_u64(total * 50, 100)]);
	kvfree(all);
	kfree(producers);
	return 0;
}

static int __init bench_init(void)
{
	wq = alloc_workqueue(NAME, WQ_UNBOUND | WQ_SYSFS, 0);
	if (!wq)
		return -ENOMEM;
	CHECK(set_scope("none such") == -EINVAL && IS_ERR(filp_open("/sys/bus/workqueue/devices/none/nice", O_WRONLY, 0)));
	run("cpu");
	run("cache_shard");
	return run("system");
}

static void __exit bench_exit(void)
{
	destroy_workqueue(wq);
}

module_init(bench_init);
module_exit(bench_exit);
MODULE_LICENSE("Dual MIT/Apache-2.0");

int main(void)
{
	CHECK(cmwq_set_param("items=300") == 0 && items == 300);
	CHECK(cmwq_set_param("most_threads=64") == 0 && cmwq_set_param("quiet=Y") == 0 && quiet && cmwq_set_param("scopes=numa") == 0);
	CHECK(!strcmp(scopes, "numa") && cmwq_set_param("items=x") == -EINVAL && cmwq_set_param("items=99999999999") == -ERANGE);
	CHECK(cmwq_set_param("most_threads=-1") == -ERANGE && cmwq_set_param("none=1") == -ENOENT && items == 300);
	if (init_module())
		return 1;
	cleanup_module();
	return 0;
}

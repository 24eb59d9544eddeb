/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Names that are used seldom, of families whose usual ones have a program each. */
#include <linux/array_size.h>
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/cpumask_types.h>
#include <linux/find.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/linkage.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/threads.h>
#include <linux/timer_types.h>
#include <linux/wait.h>
#include <linux/wait_bit.h>
#include <linux/workqueue_types.h>

#include "check.h"

/* ---- parameters ---- */

static int sizes[4] = {1, 2, 3, 4};
static unsigned int nr_sizes;
module_param_array(sizes, int, &nr_sizes, 0444);
static bool marks[2];
module_param_array_named(flags, marks, bool, NULL, 0444);
static char *words[3];
static int nr_words;
module_param_array(words, charp, &nr_words, 0444);
static char title[8];
module_param_string(title, title, sizeof(title), 0444);
static int even;

static int set_even(const char *text, const struct kernel_param *param)
{
	int before = *(int *)param->arg, failed = param_set_int(text, param);

	if (!failed && *(int *)param->arg % 2) {
		*(int *)param->arg = before;
		return -EINVAL;
	}
	return failed;
}

static const struct kernel_param_ops even_ops = {.set = set_even, .get = param_get_int};
module_param_cb(even, &even_ops, &even, 0644);
static unsigned long plain;
module_param_cb(plain, &param_ops_ulong, &plain, 0644);
static char *name;
module_param(name, charp, 0);

static void parameters(void)
{
	char text[] = "name=first", read[4096];
	struct kernel_param param = {"even", &even_ops, 0, &even};

	CHECK(cmwq_set_param("sizes=7,0x10") == 0 && nr_sizes == 2 && sizes[0] == 7 && sizes[1] == 16 && sizes[2] == 3);
	CHECK(cmwq_set_param("sizes=1,2,3,4,5") == -EINVAL && cmwq_set_param("sizes=1,,2") == -EINVAL && nr_sizes == 2);
	CHECK(cmwq_set_param("flags=y,n") == 0 && marks[0] && !marks[1]);
	CHECK(cmwq_set_param("words=a,bc") == 0 && nr_words == 2 && !strcmp(words[0], "a") && !strcmp(words[1], "bc"));
	CHECK(cmwq_set_param("title=seven77") == 0 && !strcmp(title, "seven77") && cmwq_set_param("title=eight888") == -ENOSPC);
	CHECK(cmwq_set_param("even=4") == 0 && even == 4 && cmwq_set_param("even=5") == -EINVAL && even == 4);
	CHECK(param_get_int(read, &param) == 2 && !strcmp(read, "4\n"));
	CHECK(cmwq_set_param("plain=12") == 0 && plain == 12);
	/* The caller's text may go. */
	CHECK(cmwq_set_param(text) == 0);
	memset(text, 'x', sizeof(text));
	CHECK(!strcmp(name, "first"));
	kfree(words[0]);
	kfree(words[1]);
	kfree(name);
}

/* ---- bits ---- */

static void bits(void)
{
	DECLARE_BITMAP(a, 130);
	DECLARE_BITMAP(b, 130);
	unsigned long n, from, to, count = 0, word = 0xff;
	unsigned long masked = 0;

	bitmap_zero(a, 130);
	bitmap_zero(b, 130);
	bitmap_set(a, 60, 10);
	bitmap_set(b, 65, 64);
	CHECK(find_first_and_bit(a, b, 130) == 65 && find_next_and_bit(a, b, 130, 70) == 130);
	CHECK(find_next_andnot_bit(a, b, 130, 61) == 61 && find_next_andnot_bit(a, b, 130, 65) == 130 && find_next_or_bit(a, b, 130, 70) == 70);
	for_each_and_bit(n, a, b, 130)
		count += n;
	CHECK(count == 65 + 66 + 67 + 68 + 69);
	count = 0;
	for_each_or_bit(n, a, b, 130)
		count++;
	for_each_andnot_bit(n, a, b, 130)
		count++;
	CHECK(count == 69 + 5);
	CHECK(find_nth_bit(a, 130, 0) == 60 && find_nth_bit(a, 130, 9) == 69 && find_nth_bit(a, 130, 10) == 130);
	CHECK(find_next_bit_wrap(a, 130, 70) == 60 && find_next_bit_wrap(a, 130, 64) == 64 && find_next_bit_wrap(a, 60, 30) == 60);
	count = 0;
	for_each_set_bitrange(from, to, a, 130)
		count += 1000 + to - from;
	CHECK(count == 1010);
	count = 0;
	for_each_clear_bitrange(from, to, a, 130)
		count += 1000 + to - from;
	CHECK(count == 2120);
	n = 65;
	count = 0;
	for_each_clear_bit_from(n, a, 130)
		count++;
	CHECK(count == 60);
	CHECK(fls_long(1ul << 40) == 41 && __ffs64(1ull << 33) == 33 && rol16(0x8001, 1) == 3 && ror16(3, 1) == 0x8001 && rol8(0x81, 1) == 3 && ror8(3, 1) == 0x81);
	CHECK(sign_extend64(0x80, 7) == -128 && BITS_TO_BYTES(9) == 2 && BITS_TO_U32(33) == 2 && BITS_TO_U64(65) == 2);
	CHECK(ilog2(9) == 3 && roundup_pow_of_two(9) == 16 && get_count_order_long(9) == 4);
	CHECK(set_mask_bits(&word, 0x0f, 0x100) == 0xff && word == 0x1f0);
	CHECK(cmpxchg64_relaxed(&word, 0x1f0, 1) == 0x1f0 && try_cmpxchg64(&word, &masked, 2) == false && masked == 1 && sync_cmpxchg(&word, 1, 3) == 1);
	CHECK(ARRAY_SIZE(a) == 3 && NR_CPUS >= 64);
}

/* ---- lists ---- */

struct node {
	int value;
	struct list_head entry;
	struct hlist_node hash;
	struct llist_node lockless;
};

static int nr_syncs;

static void count_sync(void)
{
	nr_syncs++;
}

static void lists(void)
{
	struct node nodes[4], *at;
	struct list_head *entry;
	HLIST_HEAD(hash);
	LLIST_HEAD(lockless);
	LIST_HEAD(one);
	LIST_HEAD(two);
	int i, sum = 0;

	for (i = 0; i < 4; i++) {
		nodes[i].value = i + 1;
		list_add_tail(&nodes[i].entry, i < 2 ? &one : &two);
		hlist_add_tail_rcu(&nodes[i].hash, &hash);
	}
	list_splice_tail_init_rcu(&two, &one, count_sync);
	CHECK(list_empty(&two) && nr_syncs == 1);
	list_for_each_rcu(entry, &one)
		sum = sum * 10 + list_entry(entry, struct node, entry)->value;
	CHECK(sum == 1234);
	sum = 0;
	list_for_each_reverse(entry, &one)
		sum = sum * 10 + list_entry(entry, struct node, entry)->value;
	CHECK(sum == 4321);
	__list_del(&nodes[0].entry, &nodes[2].entry);
	CHECK(list_count_nodes(&one) == 3);
	__list_add(&nodes[1].entry, &nodes[3].entry, &one);
	CHECK(list_last_entry(&one, struct node, entry)->value == 2);
	list_del(&nodes[1].entry);
	CHECK(nodes[1].entry.next == LIST_POISON1 && nodes[1].entry.prev == LIST_POISON2);
	at = &nodes[1];
	sum = 0;
	hlist_for_each_entry_continue_rcu(at, hash)
		sum = sum * 10 + at->value;
	at = &nodes[1];
	hlist_for_each_entry_from_rcu(at, hash)
		sum = sum * 10 + at->value;
	hlist_for_each_entry_rcu_notrace(at, &hash, hash)
		sum++;
	CHECK(sum == 34234 + 4);
	nodes[0].lockless.next = &nodes[1].lockless;
	CHECK(__llist_add_batch(&nodes[0].lockless, &nodes[1].lockless, &lockless) && llist_del_all(&lockless) == &nodes[0].lockless);
}

/* ---- waiting ---- */

static DECLARE_WAIT_QUEUE_HEAD(queue);
static DEFINE_MUTEX(mutex);
static DEFINE_SPINLOCK(lock);
static DECLARE_RWSEM(rwsem);
/* Guarded by the mutex, by the lock, and atomic: each only grows. */
static int under_mutex, under_lock, stage;
static unsigned long word = 1;
static atomic_t users = ATOMIC_INIT(2);

static int waits(void *data)
{
	struct wait_queue_entry entry;

	CHECK(!strcmp(current->comm, "waits/7"));
	/* By hand. */
	init_wait_entry(&entry, WQ_FLAG_EXCLUSIVE);
	for (;;) {
		prepare_to_wait_event(&queue, &entry, TASK_INTERRUPTIBLE);
		if (READ_ONCE(stage) >= 1)
			break;
		schedule();
	}
	finish_wait(&queue, &entry);
	mutex_lock(&mutex);
	under_mutex = 1;
	wake_up_var(&under_mutex);
	wait_var_event_mutex(&under_mutex, under_mutex == 2, &mutex);
	mutex_unlock(&mutex);
	spin_lock(&lock);
	wait_var_event_spinlock(&under_lock, under_lock == 1, &lock);
	spin_unlock(&lock);
	wait_on_bit(&word, 0, TASK_UNINTERRUPTIBLE);
	wait_var_event(&users, atomic_read(&users) == 0);
	wait_var_event(&stage, smp_load_acquire(&stage) >= 5);
	wait_event_exclusive_cmd(queue, READ_ONCE(stage) == 6, mutex_lock(&mutex), mutex_unlock(&mutex));
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return *(int *)data;
}

static void waiting(void)
{
	struct wait_queue_entry entry;
	struct task_struct *task;
	char comm[TASK_COMM_LEN];
	int result = 9;

	task = kthread_create(waits, &result, "waits/%d", 7);
	CHECK(!IS_ERR(task) && kthread_probe_data(task) == &result);
	kthread_bind_mask(task, cpu_possible_mask);
	set_user_nice(task, MAX_NICE);
	CHECK(!strcmp(get_task_comm(comm, task), "waits/7") && task_tgid_nr(task) == getpid());
	wake_up_process(task);
	CHECK(set_cpus_allowed_ptr(current, cpu_none_mask) == -EINVAL && set_cpus_allowed_ptr(current, cpu_possible_mask) == 0);
	WRITE_ONCE(stage, 1);
	wake_up(&queue);
	mutex_lock(&mutex);
	wait_var_event_mutex(&under_mutex, under_mutex == 1, &mutex);
	under_mutex = 2;
	mutex_unlock(&mutex);
	wake_up_var(&under_mutex);
	spin_lock(&lock);
	under_lock = 1;
	spin_unlock(&lock);
	wake_up_var(&under_lock);
	CHECK(test_and_clear_wake_up_bit(0, &word) && !test_and_clear_wake_up_bit(0, &word));
	CHECK(!atomic_dec_and_wake_up(&users) && atomic_dec_and_wake_up(&users));
	store_release_wake_up(&stage, 5);
	WRITE_ONCE(stage, 6);
	wake_up(&queue);
	CHECK(kthread_stop(task) == 9);

	init_waitqueue_entry(&entry, current);
	spin_lock(&queue.lock);
	__add_wait_queue_entry_tail_exclusive(&queue, &entry);
	CHECK(waitqueue_active(&queue) && entry.flags == WQ_FLAG_EXCLUSIVE);
	__remove_wait_queue(&queue, &entry);
	__add_wait_queue_exclusive(&queue, &entry);
	__remove_wait_queue(&queue, &entry);
	spin_unlock(&queue.lock);
	CHECK(!waitqueue_active(&queue));
	down_read_non_owner(&rwsem);
	up_read_non_owner(&rwsem);
	CHECK(down_write_killable_nested(&rwsem, 1) == 0);
	rwsem_assert_held_write(&rwsem);
	up_write(&rwsem);
}

/* ---- a worker of its own, without an initialisation ---- */

static int nr_runs;

static void count_run(struct kthread_work *work)
{
	(void)work;
	__atomic_fetch_add(&nr_runs, 1, __ATOMIC_SEQ_CST);
}

static DEFINE_KTHREAD_WORKER(worker);
static DEFINE_KTHREAD_WORK(work, count_run);
static DEFINE_KTHREAD_DELAYED_WORK(delayed, count_run);

static void workers(void)
{
	struct task_struct *task = kthread_run(kthread_worker_fn, &worker, "worker");

	CHECK(kthread_queue_work(&worker, &work) && kthread_queue_delayed_work(&worker, &delayed, 1));
	CHECK_SOON(READ_ONCE(nr_runs) == 2);
	kthread_flush_worker(&worker);
	kthread_cancel_delayed_work_sync(&delayed);
	CHECK(kthread_stop(task) == 0);
}

/* ---- the timer of a delayed item ---- */

static void count_item(struct work_struct *item)
{
	(void)item;
	__atomic_fetch_add(&nr_runs, 1, __ATOMIC_SEQ_CST);
}

static asmlinkage void timers(void)
{
	struct delayed_work dwork;
	const struct delayed_work *same = &dwork;
	struct timer_list timer;

	__INIT_DELAYED_WORK(&dwork, count_item, 0);
	timer_setup(&timer, NULL, 0);
	CHECK(!timer_pending(&dwork.timer) && !timer_pending(&timer));
	schedule_delayed_work(&dwork, 1000 * HZ);
	CHECK(timer_pending(&dwork.timer) && timer_pending(&same->timer));
	CHECK(flush_delayed_work(&dwork) && !timer_pending(&dwork.timer));
	CHECK(TICK_NSEC == NSEC_PER_SEC / HZ && __round_jiffies_relative(2 * HZ, 0) >= HZ);
}

int main(void)
{
	parameters();
	bits();
	lists();
	waiting();
	workers();
	timers();
	return 0;
}

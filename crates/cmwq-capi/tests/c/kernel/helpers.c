/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The smaller neighbours: what list.h, llist.h, bitops.h, cpumask.h, slab.h, ktime.h, overflow.h and others have beside what other programs
 * here use; locks of readers and writers, calls before main(), waits that wakers note in the entry.
 *
 * Seen to fail with: a reader let in beside a writer; list_cut_before() that takes the entry too; the flag of wait_woken() not cleared; atomic_dec_and_lock()
 * and atomic_dec_and_mutex_lock() that let go of the lock.
 */
#define CONFIG_TOY 1
#define CONFIG_LATER_MODULE 1
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/bitops.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/log2.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/rculist.h>
#include <linux/rwlock.h>
#include <linux/rwsem.h>
#include <linux/sched/task_stack.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "check.h"

#if !IS_ENABLED(CONFIG_TOY) || IS_ENABLED(CONFIG_NONE) || !IS_ENABLED(CONFIG_LATER) || IS_BUILTIN(CONFIG_LATER)
#error "IS_ENABLED"
#endif

struct node {
	int n;
	struct list_head list;
	struct hlist_node hlist;
	struct llist_node llist;
};

/* The numbers in a list, as digits. */
static int digits(struct list_head *head)
{
	struct node *node;
	int all = 0;

	list_for_each_entry(node, head, list)
		all = all * 10 + node->n;
	return all;
}

static void lists(void)
{
	struct node nodes[4], *node, *next;
	struct list_head *at, *n;
	struct hlist_node alone;
	int i, all = 0;
	LIST_HEAD(head);
	LIST_HEAD(cut);
	HLIST_HEAD(from);
	HLIST_HEAD(to);
	LLIST_HEAD(stack);

	for (i = 0; i < 4; i++) {
		nodes[i].n = i + 1;
		list_add_tail(&nodes[i].list, &head);
	}
	list_cut_before(&cut, &head, &nodes[2].list);
	CHECK(digits(&cut) == 12 && digits(&head) == 34);
	list_splice_init(&cut, &head);
	list_cut_before(&cut, &head, &nodes[0].list);
	CHECK(list_empty(&cut) && digits(&head) == 1234);
	list_rotate_to_front(&nodes[2].list, &head);
	CHECK(digits(&head) == 3412);
	list_for_each_prev_safe(at, n, &head)
		all = all * 10 + list_entry(at, struct node, list)->n;
	CHECK(all == 2143);
	node = &nodes[3];
	list_for_each_entry_from_reverse(node, &head, list)
		all += node->n;
	CHECK(all == 2150);
	CHECK(list_next_entry_circular(&nodes[1], &head, list) == &nodes[2] && list_prev_entry_circular(&nodes[2], &head, list) == &nodes[1]);
	CHECK(list_next_entry_circular(&nodes[2], &head, list) == &nodes[3]);
	list_del_init_careful(&nodes[3].list);
	CHECK(list_empty_careful(&nodes[3].list) && digits(&head) == 312);
	__list_del_entry(&nodes[2].list);
	at = &nodes[0].list;
	all = 0;
	list_for_each_continue(at, &head)
		all = all * 10 + list_entry(at, struct node, list)->n;
	CHECK(all == 2);
	list_for_each_entry_safe(node, next, &head, list) {
		list_safe_reset_next(node, next, list);
		list_del(&node->list);
	}
	CHECK(list_empty(&head));

	INIT_HLIST_NODE(&alone);
	hlist_add_fake(&alone);
	CHECK(hlist_fake(&alone) && !hlist_unhashed_lockless(&alone));
	hlist_del_init(&alone);
	CHECK(hlist_unhashed_lockless(&alone));
	hlist_add_tail_rcu(&nodes[0].hlist, &from);
	CHECK(hlist_is_singular_node(&nodes[0].hlist, &from));
	hlist_add_tail_rcu(&nodes[1].hlist, &from);
	hlist_add_head(&nodes[2].hlist, &to);
	hlist_splice_init(&from, &nodes[1].hlist, &to);
	CHECK(hlist_empty(&from) && hlist_count_nodes(&to) == 3 && to.first == &nodes[0].hlist && !hlist_is_singular_node(to.first, &to));
	hlist_replace_rcu(&nodes[1].hlist, &nodes[3].hlist);
	all = 0;
	node = &nodes[0];
	hlist_for_each_entry_continue(node, hlist)
		all = all * 10 + node->n;
	CHECK(all == 43);
	node = &nodes[0];
	hlist_for_each_entry_from(node, hlist)
		all = all * 10 + node->n;
	CHECK(all == 43143);

	CHECK(__llist_add(&nodes[0].llist, &stack) && !__llist_add(&nodes[1].llist, &stack));
	CHECK(!llist_del_first_this(&stack, &nodes[0].llist) && llist_del_first_this(&stack, &nodes[1].llist));
	CHECK(llist_del_first_init(&stack) == &nodes[0].llist && !llist_on_list(&nodes[0].llist) && !llist_del_first_init(&stack));
	llist_add(&nodes[0].llist, &stack);
	CHECK(__llist_del_all(&stack) == &nodes[0].llist && llist_empty(&stack));
}

static void numbers(void)
{
	DECLARE_BITMAP(bits, 130) = {0};
	struct cpumask a, b, c;
	struct { int n; long tail[]; } *flexible = NULL;
	unsigned long n;
	int sum, count = 0, cpu;

	set_bit(3, bits);
	set_bit(128, bits);
	CHECK(find_last_bit(bits, 130) == 128 && find_last_bit(bits, 128) == 3 && find_last_bit(bits, 3) == 3);
	n = 4;
	for_each_set_bit_from(n, bits, 130)
		count += (int)n;
	CHECK(count == 128 && __test_and_change_bit(3, bits) && !__test_and_change_bit(3, bits));
	__assign_bit(3, bits, false);
	CHECK(!test_bit(3, bits) && rol32(0x80000001u, 1) == 3 && ror32(3, 1) == 0x80000001u && rol32(5, 0) == 5);
	CHECK(rol64(1ull << 63, 1) == 1 && ror64(1, 1) == 1ull << 63 && sign_extend32(0xff, 7) == -1 && sign_extend32(0x7f, 7) == 127);
	CHECK(ilog2(1) == 0 && ilog2(1023) == 9 && is_power_of_2(64u) && !is_power_of_2(0u) && !is_power_of_2(65u));
	CHECK(roundup_pow_of_two(65u) == 128 && roundup_pow_of_two(64u) == 64 && rounddown_pow_of_two(127u) == 64 && order_base_2(1u) == 0);
	CHECK(get_count_order(0u) == -1 && get_count_order(9u) == 4);

	cpumask_clear(&a);
	cpumask_setall(&b);
	cpumask_set_cpu(2, &a);
	cpumask_set_cpu(70, &a);
	CHECK(!cpumask_test_and_set_cpu(100, &a) && cpumask_test_and_set_cpu(100, &a) && cpumask_test_and_clear_cpu(100, &a));
	CHECK(!cpumask_test_and_clear_cpu(100, &a) && cpumask_weight_and(&a, &b) == 2);
	cpumask_xor(&c, &a, &b);
	cpumask_complement(&b, &a);
	CHECK(cpumask_equal(&b, &c) && cpumask_next_zero(1, &a) == 3 && cpumask_first_zero(&b) == 2);
	CHECK(cpumask_next_and_wrap(70, &a, cpu_all_mask) == 2 && cpumask_nth_and(1, &a, cpu_all_mask) == 70);
	CHECK(cpumask_any_but(&a, 2) == 70 && cpumask_any_but(&a, 3) == 2 && cpumask_empty(cpu_none_mask) && cpumask_full(cpu_all_mask));
	CHECK(cpumask_any_distribute(&a) != cpumask_any_distribute(&a));
	count = 0;
	for_each_cpu_andnot(cpu, &a, cpumask_of(2))
		count += cpu;
	for_each_cpu_from(cpu, &a)
		count += 1000;
	CHECK(count == 70);
	cpu = 3;
	for_each_cpu_from(cpu, &a)
		count += cpu;
	for_each_cpu_or(cpu, cpumask_of(1), &a)
		count += 1000;
	CHECK(count == 3140 && cpu_active(cpumask_first(cpu_online_mask)) && num_present_cpus() >= num_active_cpus());

	CHECK(check_add_overflow(INT_MAX, 1, &sum) && !check_sub_overflow(3, 5, &sum) && sum == -2 && check_mul_overflow(1 << 20, 1 << 20, &sum));
	CHECK(size_add(SIZE_MAX, 1) == SIZE_MAX && array_size(SIZE_MAX / 2, 3) == SIZE_MAX && struct_size(flexible, tail, 3) == 32);
	CHECK(DIV_ROUND_CLOSEST(7, 2) == 4 && rounddown(17, 5) == 15 && ALIGN(17, 8) == 24 && ALIGN_DOWN(17, 8) == 16 && !IS_ALIGNED(17, 8));
	CHECK(mult_frac(1000000007ul, 3ul, 4ul) == 750000005 && lower_32_bits(0x100000002ull) == 2 && upper_32_bits(0x100000002ull) == 1);
	CHECK(PAGE_ALIGN(1) == PAGE_SIZE && sizeof_field(struct node, n) == sizeof(typeof_member(struct node, n)) && U32_MAX == 0xffffffffu);

	CHECK(ktime_add_ms(ktime_set(1, 5), 2) == 1002000005 && ktime_after(2, 1) && ktime_compare(1, 1) == 0 && ktime_sub_ns(ms_to_ktime(1), 1) == 999999);
	CHECK(ktime_get_real() > ktime_set(1600000000, 0) && ktime_get_seconds() * 1000 <= ktime_to_ms(ktime_get()));
}

static int odd_first(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x % 2 == 0) != (y % 2 == 0) ? (x % 2 == 0) - (y % 2 == 0) : x - y;
}

/* What is new in memory that has grown, also where it was longer once. */
static void zeros(void)
{
	char *memory, *used = kmalloc(3000, GFP_KERNEL);
	size_t size;

	CHECK(used);
	memset(used, 7, 3000);
	kfree(used);
	memory = krealloc(NULL, 3000, GFP_KERNEL | __GFP_ZERO);
	CHECK(memory && !memchr_inv(memory, 0, 3000));
	memset(memory, 7, 3000);
	memory = krealloc(memory, 1000, GFP_KERNEL | __GFP_ZERO);
	for (size = 1001; memory && size < 200000; size = size * 3 / 2) {
		memory = krealloc(memory, size, GFP_KERNEL | __GFP_ZERO);
		CHECK(memory && memory[999] == 7 && !memchr_inv(memory + 1000, 0, size - 1000));
	}
	kfree(memory);
}

static void memory(void)
{
	struct kmem_cache *cache = KMEM_CACHE(node, 0);
	unsigned long page = get_zeroed_page(GFP_KERNEL);
	void *objects[3];
	char *text = kstrndup("abcdef", 3, GFP_KERNEL), *same = kstrndup("ab", 9, GFP_KERNEL);

	CHECK(page && page % PAGE_SIZE == 0 && ((char *)page)[4095] == 0);
	free_page(page);
	CHECK(text && !strcmp(text, "abc") && same && !strcmp(same, "ab") && !kstrndup(NULL, 3, GFP_KERNEL));
	text = krealloc_array(text, 100, 2, GFP_KERNEL);
	CHECK(text && !strcmp(text, "abc") && !krealloc_array(NULL, SIZE_MAX, 2, GFP_KERNEL));
	kfree(text);
	kfree(same);
	zeros();
	CHECK(kmem_cache_alloc_bulk(cache, GFP_KERNEL, 3, objects) == 3 && objects[0] != objects[2]);
	kmem_cache_free_bulk(cache, 3, objects);
	kmem_cache_destroy(cache);
}

static void shown(void)
{
	struct seq_file seq = {0};
	unsigned long bits = 0x31;
	int i;

	for (i = 0; i < 100; i++)
		seq_printf(&seq, "%d:%*pbl\n", i % 10, 8, (void *)&bits);
	seq_puts(&seq, "end");
	seq_putc(&seq, '.');
	CHECK(seq.count == 100 * 8 + 4 && strlen(seq.buf) == seq.count && !strncmp(seq.buf, "0:0,4-5\n1:0,4-5\n", 16));
	CHECK(!strcmp(seq.buf + 800, "end.") && object_is_on_stack(__builtin_frame_address(0)) && !object_is_on_stack(seq.buf));
	kfree(seq.buf);
}

static rwlock_t rwlock = __RW_LOCK_UNLOCKED(rwlock);
static long guarded[2];
static atomic_t nr_started;

static int read_and_write(void *arg)
{
	unsigned long flags;
	int i;

	atomic_inc(&nr_started);
	for (i = 0; i < 20000; i++) {
		if (i % 8 == 0) {
			write_lock_irqsave(&rwlock, flags);
			guarded[0]++;
			guarded[1]++;
			write_unlock_irqrestore(&rwlock, flags);
		} else {
			read_lock(&rwlock);
			CHECK(guarded[0] == guarded[1]);
			read_unlock(&rwlock);
		}
	}
	return *(int *)arg;
}

static void locks(void)
{
	static DEFINE_RAW_SPINLOCK(raw);
	static DEFINE_MUTEX(mutex);
	struct task_struct *tasks[3];
	unsigned long flags;
	int i, result = 5;

	for (i = 0; i < 3; i++)
		tasks[i] = kthread_run(read_and_write, &result, "rw/%d", i);
	CHECK_SOON(atomic_read(&nr_started) == 3);
	for (i = 0; i < 3; i++)
		CHECK(kthread_func(tasks[i]) == read_and_write && kthread_stop(tasks[i]) == 5);
	CHECK(guarded[0] == 3 * 20000 / 8);
	read_lock(&rwlock);
	CHECK(read_trylock(&rwlock) && !write_trylock(&rwlock));
	read_unlock(&rwlock);
	read_unlock(&rwlock);
	CHECK(write_trylock(&rwlock) && !read_trylock(&rwlock));
	write_unlock(&rwlock);

	raw_spin_lock_irqsave(&raw, flags);
	CHECK(spin_is_locked(&raw));
	assert_spin_locked(&raw);
	raw_spin_unlock_irqrestore(&raw, flags);
	CHECK(!spin_is_locked(&raw) && spin_trylock_irqsave(&raw, flags));
	spin_unlock(&raw);
	mutex_lock_nested(&mutex, 1);
	CHECK(mutex_is_locked(&mutex));
	mutex_unlock(&mutex);
	CHECK(!mutex_is_locked(&mutex));
}

static int nr_freed;

/* The last user is told, and has the lock. */
static void last_users(void)
{
	static const struct node node;
	atomic_t users = ATOMIC_INIT(2);
	unsigned long flags;
	spinlock_t lock;
	DEFINE_MUTEX(mutex);

	spin_lock_init(&lock);
	CHECK(!atomic_dec_and_lock(&users, &lock) && spin_trylock(&lock));
	spin_unlock(&lock);
	CHECK(atomic_dec_and_lock(&users, &lock) && !spin_trylock(&lock) && atomic_read(&users) == 0);
	spin_unlock(&lock);
	atomic_set(&users, 1);
	CHECK(atomic_dec_and_lock_irqsave(&users, &lock, flags) && !spin_trylock(&lock));
	spin_unlock_irqrestore(&lock, flags);
	atomic_set(&users, 2);
	CHECK(!atomic_dec_and_mutex_lock(&users, &mutex) && mutex_trylock(&mutex));
	mutex_unlock(&mutex);
	CHECK(atomic_dec_and_mutex_lock(&users, &mutex) && !mutex_trylock(&mutex) && atomic_read(&users) == 0);
	mutex_unlock(&mutex);
	CHECK(container_of_const(&node.n, struct node, n) == &node);
}

static void free_counted(void *what)
{
	nr_freed++;
	kfree(what);
}
DEFINE_FREE(counted, void *, if (_T) free_counted(_T));

static void *keep_or_free(bool keep)
{
	void *given __free(counted) = kmalloc(8, GFP_KERNEL);

	if (keep)
		return_ptr(given);
	return NULL;
}

static DEFINE_MUTEX(guarding);

static bool holds(bool early)
{
	guard(mutex)(&guarding);
	if (early)
		return mutex_is_locked(&guarding);
	scoped_guard(spinlock_irqsave, &(spinlock_t)__SPIN_LOCK_UNLOCKED(any))
		early = mutex_is_locked(&guarding);
	return early;
}

static void guards(void)
{
	static DECLARE_RWSEM(sem);
	static spinlock_t lock = __SPIN_LOCK_UNLOCKED(lock);
	void *kept = keep_or_free(true);
	int rounds = 0;

	CHECK(kept && nr_freed == 0 && !keep_or_free(false) && nr_freed == 1);
	kfree(kept);
	CHECK(holds(true) && !mutex_is_locked(&guarding) && holds(false) && !mutex_is_locked(&guarding));
	scoped_guard(spinlock, &lock) {
		CHECK(spin_is_locked(&lock) && ++rounds == 1);
	}
	CHECK(!spin_is_locked(&lock) && rounds == 1);
	scoped_guard(rwsem_read, &sem)
		CHECK(rwsem_is_locked(&sem) && down_read_trylock(&sem));
	up_read(&sem);
	CHECK(!rwsem_is_locked(&sem));
	scoped_guard(write_lock, &rwlock)
		CHECK(!read_trylock(&rwlock));
	CHECK(!rcu_read_lock_held());
	scoped_guard(rcu)
		CHECK(rcu_read_lock_held());
	CHECK(!rcu_read_lock_held());
}

static DECLARE_WAIT_QUEUE_HEAD(queue);
static atomic_t said, heard, loaded;

static int hear(void *arg)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);

	add_wait_queue(&queue, &wait);
	while (!atomic_read(&said))
		wait_woken(&wait, TASK_INTERRUPTIBLE, MAX_SCHEDULE_TIMEOUT);
	remove_wait_queue(&queue, &wait);
	/* A wake-up without a waiter holds for one wait. */
	wait.flags |= WQ_FLAG_WOKEN;
	CHECK(wait_woken(&wait, TASK_INTERRUPTIBLE, 1000) == 1000 && wait_woken(&wait, TASK_INTERRUPTIBLE, 1) == 0);
	atomic_inc(&heard);
	CHECK(atomic_cond_read_acquire(&loaded, VAL > 1) == 2);
	kthread_exit(*(int *)arg);
}

static void waits(void)
{
	int result = 9;
	struct task_struct *task = kthread_run(hear, &result, "hear");

	CHECK(!IS_ERR(task));
	CHECK_SOON(wq_has_single_sleeper(&queue));
	atomic_set(&said, 1);
	wake_up_interruptible_sync(&queue);
	CHECK_SOON(atomic_read(&heard) == 1);
	atomic_set(&loaded, 2);
	CHECK(kthread_stop(task) == 9 && !wq_has_single_sleeper(&queue));
}

static int order;

static int __init late(void)
{
	order = order * 10 + 2;
	return 0;
}
late_initcall(late);

static int __init core(void)
{
	order = order * 10 + 1;
	return 0;
}
core_initcall(core);

int main(void)
{
	int sorted[] = {4, 3, 2, 1};

	CHECK(order == 12);
	sort_nonatomic(sorted, 4, sizeof(sorted[0]), odd_first, NULL);
	CHECK(sorted[0] == 1 && sorted[1] == 3 && sorted[2] == 2 && sorted[3] == 4);
	lists();
	numbers();
	memory();
	shown();
	locks();
	last_users();
	guards();
	waits();
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Memory for each CPU, semaphores, bitmaps, sorted lists, RCU lists, waiting for bits and variables. */
#include <linux/bitmap.h>
#include <linux/kref.h>
#include <linux/list_sort.h>
#include <linux/percpu.h>
#include <linux/rculist.h>
#include <linux/semaphore.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>

#include "check.h"

enum { NR_ITEMS = 64, ROUNDS = 200 };

static struct work_struct items[NR_ITEMS];
static struct workqueue_struct *wq;

static void run_all(work_func_t func)
{
	int i;

	for (i = 0; i < NR_ITEMS; i++) {
		INIT_WORK(&items[i], func);
		CHECK(queue_work(wq, &items[i]));
	}
	flush_workqueue(wq);
}

struct counters {
	long hits;
	char spare[3000];
	long bytes;
};
static struct counters __percpu *counters;

static void count(struct work_struct *work)
{
	int i;

	(void)work;
	for (i = 0; i < ROUNDS; i++) {
		this_cpu_inc(counters->hits);
		this_cpu_add(counters->bytes, 3);
	}
}

static void percpu(void)
{
	long hits = 0, bytes = 0;
	unsigned int cpu;

	CHECK(!__alloc_percpu(1 << 20, 8));
	counters = alloc_percpu(struct counters);
	CHECK(counters);
	for_each_possible_cpu(cpu) {
		CHECK(per_cpu_ptr(counters, cpu)->hits == 0);
		CHECK(cpu == 0 || (char *)per_cpu_ptr(counters, cpu) - (char *)per_cpu_ptr(counters, cpu - 1) >= (long)sizeof(*counters));
	}
	run_all(count);
	for_each_possible_cpu(cpu) {
		hits += per_cpu_ptr(counters, cpu)->hits;
		bytes += per_cpu_ptr(counters, cpu)->bytes;
	}
	CHECK(hits == NR_ITEMS * ROUNDS && bytes == 3 * hits);
	free_percpu(counters);
	free_percpu(NULL);
}

static DEFINE_SEMAPHORE(places, 2);
static int nr_inside, nr_passed;

static void pass(struct work_struct *work)
{
	int i;

	(void)work;
	for (i = 0; i < ROUNDS; i++) {
		down(&places);
		CHECK(__atomic_add_fetch(&nr_inside, 1, __ATOMIC_SEQ_CST) <= 2);
		__atomic_fetch_sub(&nr_inside, 1, __ATOMIC_SEQ_CST);
		up(&places);
	}
	__atomic_fetch_add(&nr_passed, 1, __ATOMIC_SEQ_CST);
}

static void semaphores(void)
{
	struct semaphore one;

	sema_init(&one, 1);
	CHECK(down_trylock(&one) == 0 && down_trylock(&one) == 1);
	CHECK(down_timeout(&one, 2) == -ETIME);
	up(&one);
	CHECK(down_timeout(&one, 2) == 0 && down_trylock(&one) == 1);
	up(&one);
	CHECK(down_interruptible(&one) == 0);
	run_all(pass);
	CHECK(nr_passed == NR_ITEMS && places.count == 2);
}

static void bitmaps(void)
{
	DECLARE_BITMAP(a, 100);
	DECLARE_BITMAP(b, 100);
	DECLARE_BITMAP(c, 100);
	unsigned long *heap = bitmap_zalloc(1000, GFP_KERNEL);

	bitmap_fill(a, 100);
	CHECK(bitmap_full(a, 100) && bitmap_weight(a, 100) == 100);
	bitmap_zero(b, 100);
	CHECK(bitmap_empty(b, 100) && bitmap_subset(b, a, 100) && !bitmap_intersects(a, b, 100));
	bitmap_set(b, 60, 10);
	CHECK(bitmap_weight(b, 100) == 10 && test_bit(69, b) && !test_bit(70, b));
	CHECK(bitmap_andnot(c, a, b, 100) && bitmap_weight(c, 100) == 90);
	CHECK(!bitmap_and(c, c, b, 100));
	bitmap_complement(c, b, 100);
	CHECK(bitmap_weight(c, 100) == 90 && bitmap_or(c, c, b, 100) && bitmap_equal(c, a, 100));
	CHECK(bitmap_xor(c, a, b, 100) && bitmap_weight(c, 100) == 90);
	bitmap_clear(b, 60, 5);
	CHECK(find_first_bit(b, 100) == 65);
	/* What lies beyond the last bit is of no account. */
	bitmap_copy(c, a, 100);
	c[1] ^= 1UL << 63;
	CHECK(bitmap_equal(c, a, 100) && bitmap_full(c, 100));
	CHECK(bitmap_find_next_zero_area(heap, 1000, 0, 100, 0) == 0);
	bitmap_set(heap, 50, 1);
	CHECK(bitmap_find_next_zero_area(heap, 1000, 0, 100, 0) == 51);
	CHECK(bitmap_find_next_zero_area(heap, 1000, 0, 100, 63) == 64);
	CHECK(bitmap_find_next_zero_area(heap, 1000, 0, 960, 0) > 1000);
	bitmap_free(heap);
}

struct number {
	struct list_head entry;
	struct hlist_node node;
	struct rcu_head rcu;
	int value, place;
};

static int by_value(void *priv, const struct list_head *a, const struct list_head *b)
{
	++*(int *)priv;
	return list_entry(a, struct number, entry)->value - list_entry(b, struct number, entry)->value;
}

static void sorted_lists(void)
{
	static struct number numbers[1000];
	int n, i, calls;

	for (n = 0; n <= 1000; n = n ? n * 3 + 1 : 1) {
		LIST_HEAD(list);
		struct number *at, *before = NULL;
		unsigned int random = 1;

		for (i = 0; i < n && i < 1000; i++) {
			random = random * 1103515245 + 12345;
			numbers[i].value = (int)(random >> 16) % 50;
			numbers[i].place = i;
			list_add_tail(&numbers[i].entry, &list);
		}
		calls = 0;
		list_sort(&calls, &list, by_value);
		i = 0;
		list_for_each_entry(at, &list, entry) {
			if (before)
				CHECK(before->value < at->value || (before->value == at->value && before->place < at->place));
			CHECK(at->entry.next->prev == &at->entry);
			before = at;
			i++;
		}
		CHECK(i == n && calls <= 10 * n);
	}
}

static LIST_HEAD(shared);
static HLIST_HEAD(hashed);
static int reading = 1;

static void read_lists(struct work_struct *work)
{
	struct number *at;

	(void)work;
	while (READ_ONCE(reading)) {
		int last = 1 << 30;

		rcu_read_lock();
		/* Newer ones are before older ones; what was freed would not be so. */
		list_for_each_entry_rcu(at, &shared, entry) {
			CHECK(at->value < last && at->place == ~at->value);
			last = at->value;
		}
		hlist_for_each_entry_rcu(at, &hashed, node)
			CHECK(at->place == ~at->value);
		rcu_read_unlock();
	}
}

static void free_number(struct rcu_head *rcu)
{
	struct number *number = container_of(rcu, struct number, rcu);

	number->place = number->value;
	kfree(number);
}

static void rcu_lists(void)
{
	struct number *last, *first;
	int i;

	CHECK(!list_first_or_null_rcu(&shared, struct number, entry));
	INIT_WORK(&items[0], read_lists);
	queue_work(wq, &items[0]);
	for (i = 0; i < 5000; i++) {
		struct number *number = kzalloc(sizeof(*number), GFP_KERNEL);

		number->value = i;
		number->place = ~i;
		list_add_rcu(&number->entry, &shared);
		hlist_add_head_rcu(&number->node, &hashed);
		first = list_first_or_null_rcu(&shared, struct number, entry);
		CHECK(first == number);
		if (i < 20)
			continue;
		last = list_entry(shared.prev, struct number, entry);
		list_del_rcu(&last->entry);
		hlist_del_init_rcu(&last->node);
		call_rcu(&last->rcu, free_number);
	}
	WRITE_ONCE(reading, 0);
	flush_work(&items[0]);
	while ((first = list_first_or_null_rcu(&shared, struct number, entry))) {
		list_del_rcu(&first->entry);
		call_rcu(&first->rcu, free_number);
	}
	rcu_barrier();
}

static unsigned long word;
static int variable, holders;

static void hold_bit(struct work_struct *work)
{
	int i;

	(void)work;
	for (i = 0; i < ROUNDS; i++) {
		CHECK(wait_on_bit_lock(&word, 5, TASK_UNINTERRUPTIBLE) == 0);
		CHECK(holders++ == 0);
		holders--;
		clear_and_wake_up_bit(5, &word);
	}
}

static void set_variable(struct work_struct *work)
{
	(void)work;
	WRITE_ONCE(variable, 1);
	wake_up_var(&variable);
	clear_bit_unlock(7, &word);
	wake_up_bit(&word, 7);
}

static void bit_waits(void)
{
	run_all(hold_bit);
	CHECK(!word && wait_on_bit(&word, 5, TASK_UNINTERRUPTIBLE) == 0);
	set_bit(7, &word);
	CHECK(wait_on_bit_timeout(&word, 7, TASK_UNINTERRUPTIBLE, 2) == -EAGAIN);
	CHECK(wait_var_event_timeout(&variable, READ_ONCE(variable), 2) == 0);
	INIT_WORK(&items[0], set_variable);
	queue_work(wq, &items[0]);
	wait_var_event(&variable, READ_ONCE(variable));
	CHECK(wait_on_bit(&word, 7, TASK_UNINTERRUPTIBLE) == 0);
	CHECK(wait_var_event_timeout(&variable, READ_ONCE(variable), 2) == 2);
	flush_work(&items[0]);
}

static DEFINE_SPINLOCK(lock);
static int nr_released;

static void release(struct kref *kref)
{
	(void)kref;
	CHECK(!spin_trylock(&lock));
	nr_released++;
	spin_unlock(&lock);
}

int main(void)
{
	struct kref kref = KREF_INIT(2);

	wq = alloc_workqueue("neighbours", WQ_UNBOUND, 0);
	CHECK(wq);
	percpu();
	semaphores();
	bitmaps();
	sorted_lists();
	rcu_lists();
	bit_waits();
	CHECK(!kref_put_lock(&kref, release, &lock) && kref_put_lock(&kref, release, &lock) && nr_released == 1);
	destroy_workqueue(wq);
	return 0;
}

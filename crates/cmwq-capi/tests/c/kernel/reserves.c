/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Memory: elements kept in reserve, whole pages, copies; tables that are searched.
 *
 * Seen to fail with: a reserve that is not filled up again; a product that does not fit; a hash of one bit less.
 */
#include <linux/bsearch.h>
#include <linux/hashtable.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include "check.h"

enum { RESERVE = 2, NR_ITEMS = 16, ROUNDS = 500 };

static struct workqueue_struct *wq;
static mempool_t *pool;
static int empty, nr_alive;

/* An allocator that gives nothing while `empty`. */
static void *give(gfp_t flags, void *data)
{
	(void)flags;
	CHECK(data == &nr_alive);
	if (__atomic_load_n(&empty, __ATOMIC_SEQ_CST))
		return NULL;
	__atomic_fetch_add(&nr_alive, 1, __ATOMIC_SEQ_CST);
	return kmalloc(8, GFP_KERNEL);
}

static void take(void *element, void *data)
{
	CHECK(data == &nr_alive);
	__atomic_fetch_sub(&nr_alive, 1, __ATOMIC_SEQ_CST);
	kfree(element);
}

static void use(struct work_struct *unused)
{
	int i;

	(void)unused;
	for (i = 0; i < ROUNDS; i++) {
		void *element = mempool_alloc(pool, GFP_NOFS);

		CHECK(element);
		memset(element, i, 8);
		mempool_free(element, pool);
	}
}

static void pools(void)
{
	struct work_struct items[NR_ITEMS];
	struct kmem_cache *cache;
	void *kept[RESERVE];
	mempool_t other;
	int i;

	pool = mempool_create(RESERVE, give, take, &nr_alive);
	CHECK(pool && nr_alive == RESERVE);
	empty = 1;
	for (i = 0; i < RESERVE; i++)
		CHECK((kept[i] = mempool_alloc(pool, GFP_NOWAIT)) != NULL);
	CHECK(!mempool_alloc(pool, GFP_ATOMIC) && nr_alive == RESERVE);
	/* All wait for two elements. */
	for (i = 0; i < NR_ITEMS; i++) {
		INIT_WORK_ONSTACK(&items[i], use);
		queue_work(wq, &items[i]);
	}
	for (i = 0; i < RESERVE; i++)
		mempool_free(kept[i], pool);
	flush_workqueue(wq);
	CHECK(nr_alive == RESERVE && pool->curr_nr == RESERVE);
	empty = 0;
	kept[0] = mempool_alloc(pool, GFP_KERNEL);
	CHECK(kept[0] && nr_alive == RESERVE + 1);
	mempool_free(kept[0], pool);
	mempool_free(NULL, pool);
	CHECK(nr_alive == RESERVE);
	mempool_destroy(pool);
	mempool_destroy(NULL);
	CHECK(nr_alive == 0);
	empty = 1;
	CHECK(!mempool_create(1, give, take, &nr_alive));
	cache = kmem_cache_create("reserves", 24, 0, 0, NULL);
	CHECK(mempool_init_slab_pool(&other, 3, cache) == 0 && mempool_initialized(&other));
	kept[0] = mempool_alloc(&other, GFP_KERNEL | __GFP_ZERO);
	mempool_free(kept[0], &other);
	mempool_exit(&other);
	mempool_exit(&other);
	CHECK(mempool_init_kmalloc_pool(&other, 1, 100) == 0);
	mempool_exit(&other);
	kmem_cache_destroy(cache);
}

static void memory(void)
{
	static const char text[] = "text";
	char *pages = (char *)vzalloc(3 * PAGE_SIZE + 1), *copy;

	CHECK(pages && offset_in_page(pages) == 0 && offset_in_page(pages + 5) == 5 && !pages[3 * PAGE_SIZE]);
	vfree(pages);
	vfree(NULL);
	CHECK(!vmalloc_array(SIZE_MAX / 4 + 2, 4) && !vcalloc(SIZE_MAX, SIZE_MAX) && !vmalloc(0));
	pages = (char *)vcalloc(10, 10);
	CHECK(pages && !pages[99]);
	kvfree(pages);
	copy = kmemdup_nul("texture", 4, GFP_KERNEL);
	CHECK(copy && !strcmp(copy, text));
	kfree_sensitive(copy);
	kfree_sensitive(NULL);
	copy = (char *)kmemdup_array(text, 5, sizeof(text[0]), GFP_KERNEL);
	CHECK(copy && !strcmp(copy, text));
	copy = (char *)kvrealloc(copy, 100, GFP_KERNEL);
	CHECK(copy && !strcmp(copy, text));
	kfree_const(copy);
	CHECK(gfpflags_allow_blocking(GFP_KERNEL) && !gfpflags_allow_blocking(GFP_ATOMIC));
}

struct owner {
	struct hlist_node node;
	int id;
};

static int by_id(const void *key, const void *element)
{
	return *(const int *)key - ((const struct owner *)element)->id;
}

static void tables(void)
{
	DEFINE_HASHTABLE(table, 4);
	DECLARE_HASHTABLE(later, 0);
	static struct owner owners[100];
	struct owner *at, *found;
	struct hlist_node *next;
	int i, n = 0, key = 57 * 3, none = 2;

	hash_init(later);
	CHECK(hash_empty(table) && hash_empty(later) && HASH_SIZE(table) == 16 && HASH_BITS(table) == 4 && HASH_BITS(later) == 0);
	for (i = 0; i < 100; i++) {
		owners[i].id = 3 * i;
		hash_add(table, &owners[i].node, owners[i].id);
	}
	CHECK(!hash_empty(table) && hash_hashed(&owners[5].node));
	hash_for_each(table, i, at, node)
		n++;
	CHECK(n == 100);
	for (i = n = 0; i < 300; i++)
		hash_for_each_possible(table, at, node, i)
			n += at->id == i;
	CHECK(n == 100);
	/* No place has none, or more than a quarter of them. */
	for (i = 0; i < 16; i++)
		CHECK(!hlist_empty(&table[i]) && hlist_count_nodes(&table[i]) <= 25);
	hash_for_each_safe(table, i, next, at, node) {
		hash_del(&at->node);
		hash_add_rcu(later, &at->node, at->id);
	}
	CHECK(hash_empty(table) && hlist_count_nodes(&later[0]) == 100);
	hash_del_rcu(&owners[7].node);
	n = 0;
	hash_for_each_possible_rcu(later, at, node, 1)
		n++;
	CHECK(n == 99 && !hash_hashed(&owners[7].node));
	found = (struct owner *)bsearch(&key, owners, 100, sizeof(owners[0]), by_id);
	CHECK(found == &owners[57] && !bsearch(&none, owners, 100, sizeof(owners[0]), by_id));
}

int main(void)
{
	wq = alloc_workqueue("reserves", WQ_UNBOUND, 0);
	CHECK(wq);
	pools();
	memory();
	tables();
	destroy_workqueue(wq);
	return 0;
}

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: elements that are kept
 * in reserve, so that a caller that may wait gets one in the end. A program that brings its own
 * defines CMWQ_NO_SLAB.
 */
#ifndef CMWQ_LINUX_MEMPOOL_H
#define CMWQ_LINUX_MEMPOOL_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SLAB
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/mempool.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SLAB

#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

typedef void *(mempool_alloc_t)(gfp_t flags, void *pool_data);
typedef void(mempool_free_t)(void *element, void *pool_data);

typedef struct mempool {
	spinlock_t lock;
	int min_nr, curr_nr;
	/* The reserve: the first `curr_nr`. */
	void **elements;
	void *pool_data;
	mempool_alloc_t *alloc;
	mempool_free_t *free;
	wait_queue_head_t wait;
} mempool_t;

static inline bool mempool_initialized(const mempool_t *pool)
{
	return pool->elements != NULL;
}

/* For a pool that lies in something else. It may be called for zeros, and again. */
static inline void mempool_exit(mempool_t *pool)
{
	while (pool->curr_nr)
		pool->free(pool->elements[--pool->curr_nr], pool->pool_data);
	kfree(pool->elements);
	pool->elements = NULL;
}

/* -ENOMEM: the reserve cannot be had. */
static inline CMWQ_MUST_CHECK int mempool_init(mempool_t *pool, int min_nr, mempool_alloc_t *alloc,
	mempool_free_t *free_element, void *pool_data)
{
	void *element;

	spin_lock_init(&pool->lock);
	init_waitqueue_head(&pool->wait);
	pool->min_nr = min_nr;
	pool->curr_nr = 0;
	pool->pool_data = pool_data;
	pool->alloc = alloc;
	pool->free = free_element;
	pool->elements = (void **)kcalloc(min_nr > 0 ? (size_t)min_nr : 1, sizeof(void *),
		GFP_KERNEL);
	if (!pool->elements)
		return -ENOMEM;
	while (pool->curr_nr < min_nr) {
		element = alloc(GFP_KERNEL, pool_data);
		if (!element) {
			mempool_exit(pool);
			return -ENOMEM;
		}
		pool->elements[pool->curr_nr++] = element;
	}
	return 0;
}

static inline CMWQ_MUST_CHECK mempool_t *mempool_create(int min_nr, mempool_alloc_t *alloc,
	mempool_free_t *free_element, void *pool_data)
{
	mempool_t *pool = (mempool_t *)kzalloc(sizeof(*pool), GFP_KERNEL);

	if (pool && mempool_init(pool, min_nr, alloc, free_element, pool_data)) {
		kfree(pool);
		return NULL;
	}
	return pool;
}

static inline void mempool_destroy(mempool_t *pool)
{
	if (!pool)
		return;
	mempool_exit(pool);
	kfree(pool);
}

static inline void *cmwq_mempool_reserved(mempool_t *pool)
{
	void *element = NULL;

	spin_lock(&pool->lock);
	if (pool->curr_nr)
		element = pool->elements[--pool->curr_nr];
	spin_unlock(&pool->lock);
	return element;
}

/*
 * NULL only with GFP_ATOMIC or GFP_NOWAIT: otherwise it waits until an element comes back, and asks
 * for memory again every five seconds.
 */
static inline CMWQ_MUST_CHECK void *mempool_alloc(mempool_t *pool, gfp_t flags)
{
	void *element = pool->alloc(flags, pool->pool_data);

	if (!element)
		element = cmwq_mempool_reserved(pool);
	while (!element && gfpflags_allow_blocking(flags))
		if (!wait_event_timeout(pool->wait, (element = cmwq_mempool_reserved(pool)) != NULL,
			    5 * HZ))
			element = pool->alloc(flags, pool->pool_data);
	return element;
}

static inline void mempool_free(void *element, mempool_t *pool)
{
	if (!element)
		return;
	spin_lock(&pool->lock);
	if (pool->curr_nr < pool->min_nr) {
		pool->elements[pool->curr_nr++] = element;
		element = NULL;
	}
	spin_unlock(&pool->lock);
	if (element)
		pool->free(element, pool->pool_data);
	else if (wq_has_sleeper(&pool->wait))
		wake_up(&pool->wait);
}

/* `pool_data` is a struct kmem_cache, or a size as a pointer. */
static inline CMWQ_MUST_CHECK void *mempool_alloc_slab(gfp_t flags, void *pool_data)
{
	return kmem_cache_alloc((struct kmem_cache *)pool_data, flags);
}

static inline void mempool_free_slab(void *element, void *pool_data)
{
	kmem_cache_free((struct kmem_cache *)pool_data, element);
}

static inline CMWQ_MUST_CHECK void *mempool_kmalloc(gfp_t flags, void *pool_data)
{
	return kmalloc((size_t)(uintptr_t)pool_data, flags);
}

static inline void mempool_kfree(void *element, void *pool_data)
{
	(void)pool_data;
	kfree(element);
}

#define mempool_init_slab_pool(pool, min_nr, cache) \
	mempool_init((pool), (min_nr), mempool_alloc_slab, mempool_free_slab, (cache))
#define mempool_create_slab_pool(min_nr, cache) \
	mempool_create((min_nr), mempool_alloc_slab, mempool_free_slab, (cache))
#define mempool_init_kmalloc_pool(pool, min_nr, size) \
	mempool_init((pool), (min_nr), mempool_kmalloc, mempool_kfree, (void *)(uintptr_t)(size))
#define mempool_create_kmalloc_pool(min_nr, size) \
	mempool_create((min_nr), mempool_kmalloc, mempool_kfree, (void *)(uintptr_t)(size))

#endif
#endif

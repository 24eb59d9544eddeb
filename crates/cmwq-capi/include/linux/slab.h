/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: memory, from malloc().
 * Flags are accepted; of them only __GFP_ZERO means anything. A program that brings its own defines
 * CMWQ_NO_SLAB.
 */
#ifndef CMWQ_LINUX_SLAB_H
#define CMWQ_LINUX_SLAB_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SLAB
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/slab.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SLAB

#include <linux/bug.h>
#ifndef __cplusplus
#include <linux/compiler.h>
#endif
#include <linux/kernel.h>
#include <linux/overflow.h>
#include <linux/types.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define GFP_KERNEL 0u
#define GFP_ATOMIC 0x1u
#define GFP_NOWAIT 0x2u
#define GFP_NOIO 0x4u
#define GFP_NOFS 0x8u
#define __GFP_ZERO 0x100u
#define __GFP_NOWARN 0x200u
#define __GFP_NOFAIL 0x400u

static inline CMWQ_MUST_CHECK void *kmalloc(size_t size, unsigned int flags)
{
	return flags & __GFP_ZERO ? calloc(1, size) : malloc(size);
}

static inline CMWQ_MUST_CHECK void *kzalloc(size_t size, unsigned int flags)
{
	return kmalloc(size, flags | __GFP_ZERO);
}

/* Returns NULL if n * size is too large a number. */
static inline CMWQ_MUST_CHECK void *kmalloc_array(size_t n, size_t size, unsigned int flags)
{
	return size && n > SIZE_MAX / size ? NULL : kmalloc(n * size, flags);
}

static inline CMWQ_MUST_CHECK void *kcalloc(size_t n, size_t size, unsigned int flags)
{
	return kmalloc_array(n, size, flags | __GFP_ZERO);
}

/*
 * Overwrites all memory that malloc() gave from there on, which may be more than the caller asked
 * for.
 */
static inline void cmwq_zero_from(void *memory, size_t from)
{
	volatile char *bytes = (volatile char *)memory;
	size_t end = malloc_usable_size(memory);

	while (end > from)
		bytes[--end] = 0;
}

/* With __GFP_ZERO what is new is zeros, if all that was asked for this memory had the flag. */
static inline CMWQ_MUST_CHECK void *krealloc(const void *old, size_t size, unsigned int flags)
{
	size_t had = flags & __GFP_ZERO && old ? malloc_usable_size((void *)(uintptr_t)old) : 0;
	char *memory = (char *)realloc((void *)(uintptr_t)old, size);

	if (memory && flags & __GFP_ZERO) {
		if (had < size)
			memset(memory + had, 0, size - had);
		cmwq_zero_from(memory, size);
	}
	return memory;
}

static inline void kfree(const void *memory)
{
	free((void *)(uintptr_t)memory);
}

static inline CMWQ_MUST_CHECK void *kmemdup(const void *from, size_t size, unsigned int flags)
{
	void *to = kmalloc(size, flags);

	return to ? memcpy(to, from, size) : NULL;
}

static inline CMWQ_MUST_CHECK char *kstrdup(const char *from, unsigned int flags)
{
	return from ? (char *)kmemdup(from, strlen(from) + 1, flags) : NULL;
}

#define CMWQ_OBJ(how, what, ...) ((__typeof__(what) *)how(1, sizeof(what), 0))
#define CMWQ_OBJS(how, what, n, ...) ((__typeof__(what) *)how((n), sizeof(what), 0))
/* An object, or an array, of the type of what is named; flags may follow. */
#define kmalloc_obj(...) CMWQ_OBJ(kmalloc_array, __VA_ARGS__, 0)
#define kzalloc_obj(...) CMWQ_OBJ(kcalloc, __VA_ARGS__, 0)
#define kmalloc_objs(...) CMWQ_OBJS(kmalloc_array, __VA_ARGS__, 0)
#define kzalloc_objs(...) CMWQ_OBJS(kcalloc, __VA_ARGS__, 0)
#define kvmalloc_obj(...) kmalloc_obj(__VA_ARGS__)
#define kvzalloc_obj(...) kzalloc_obj(__VA_ARGS__)
#define kvmalloc_objs(...) kmalloc_objs(__VA_ARGS__)
#define kvzalloc_objs(...) kzalloc_objs(__VA_ARGS__)

/*
 * A cache of objects: a size, an alignment, and a constructor, which is called for each object that
 * is taken.
 */
struct kmem_cache {
	size_t size, align;
	void (*ctor)(void *object);
};

#define SLAB_HWCACHE_ALIGN 0x2000u
#define SLAB_PANIC 0x40000u
#define SLAB_RECLAIM_ACCOUNT 0x20000u
#define SLAB_ACCOUNT 0x4000000u
#define SLAB_POISON 0x800u
#define SLAB_RED_ZONE 0x400u
#define SLAB_NO_MERGE 0x1000000u

static inline CMWQ_MUST_CHECK struct kmem_cache *kmem_cache_create(const char *name,
	unsigned int size, unsigned int align, unsigned int flags, void (*ctor)(void *object))
{
	struct kmem_cache *cache = (struct kmem_cache *)malloc(sizeof(*cache));

	(void)name;
	if (!cache)
		return NULL;
	cache->align = align > sizeof(void *) ? align : sizeof(void *);
	if (flags & SLAB_HWCACHE_ALIGN && cache->align < 64)
		cache->align = 64;
	cache->size = (size + cache->align - 1) / cache->align * cache->align;
	cache->ctor = ctor;
	return cache;
}

static inline CMWQ_MUST_CHECK void *kmem_cache_alloc(struct kmem_cache *cache, unsigned int flags)
{
	void *object = aligned_alloc(cache->align, cache->size);

	if (!object)
		return NULL;
	if (flags & __GFP_ZERO)
		memset(object, 0, cache->size);
	if (cache->ctor)
		cache->ctor(object);
	return object;
}

static inline CMWQ_MUST_CHECK void *kmem_cache_zalloc(struct kmem_cache *cache, unsigned int flags)
{
	return kmem_cache_alloc(cache, flags | __GFP_ZERO);
}

static inline void kmem_cache_free(struct kmem_cache *cache, void *object)
{
	(void)cache;
	free(object);
}

static inline void kmem_cache_destroy(struct kmem_cache *cache)
{
	free(cache);
}

static inline unsigned int kmem_cache_size(struct kmem_cache *cache)
{
	return (unsigned int)cache->size;
}

#define KMEM_CACHE(type, flags) \
	kmem_cache_create(#type, sizeof(struct type), __alignof__(struct type), (flags), NULL)
#define kmem_cache_create_usercopy(name, size, align, flags, offset, length, ctor) \
	kmem_cache_create((name), (size), (align), (flags), (ctor))
#define KMEM_CACHE_USERCOPY(type, flags, field) KMEM_CACHE(type, (flags))
#define kmem_cache_alloc_lru(cache, lru, flags) kmem_cache_alloc((cache), (flags))
#define kvmalloc(size, flags) kmalloc((size), (flags))
#define kvzalloc(size, flags) kzalloc((size), (flags))
#define kvmalloc_array(n, size, flags) kmalloc_array((n), (size), (flags))
#define kvcalloc(n, size, flags) kcalloc((n), (size), (flags))
#define kvfree(memory) kfree(memory)
#define GFP_KERNEL_ACCOUNT GFP_KERNEL
#define GFP_USER GFP_KERNEL
#define __GFP_NORETRY 0x800u
#define __GFP_RETRY_MAYFAIL 0x1000u
#define __GFP_HIGH 0x2000u
#define __GFP_ACCOUNT 0x4000u
#define __GFP_NOMEMALLOC 0x8000u
#define __GFP_COMP 0x10000u
#define gfpflags_allow_blocking(flags) (!((flags) & (GFP_ATOMIC | GFP_NOWAIT)))
/* The system decides where the memory lies. */
#define kmalloc_node(size, flags, node) kmalloc((size), (flags))
#define kzalloc_node(size, flags, node) kzalloc((size), (flags))
#define kcalloc_node(n, size, flags, node) kcalloc((n), (size), (flags))
#define kmalloc_array_node(n, size, flags, node) kmalloc_array((n), (size), (flags))
#define kvmalloc_node(size, flags, node) kvmalloc((size), (flags))
#define kvzalloc_node(size, flags, node) kvzalloc((size), (flags))
#define kmem_cache_alloc_node(cache, flags, node) kmem_cache_alloc((cache), (flags))
/* Nothing is kept that could be given back. */
static inline int kmem_cache_shrink(struct kmem_cache *cache)
{
	(void)cache;
	return 0;
}

#define ZERO_SIZE_PTR ((void *)16)
#define ZERO_OR_NULL_PTR(ptr) ((uintptr_t)(ptr) <= 16)

static inline CMWQ_MUST_CHECK void *krealloc_array(void *old, size_t n, size_t size,
	unsigned int flags)
{
	return size && n > SIZE_MAX / size ? NULL : krealloc(old, n * size, flags);
}

static inline CMWQ_MUST_CHECK void *kvrealloc(const void *old, size_t size, unsigned int flags)
{
	return krealloc(old, size, flags);
}

#define kmemdup_array(from, n, size, flags) kmemdup((from), size_mul((n), (size)), (flags))
#define kvmemdup(from, size, flags) kmemdup((from), (size), (flags))
/* A copy, always: kfree_const() frees it. */
#define kstrdup_const(from, flags) ((const char *)kstrdup((from), (flags)))
#define kfree_const(memory) kfree(memory)

/* All that malloc() gave is overwritten before it is freed. */
static inline void kfree_sensitive(const void *memory)
{
	if (memory)
		cmwq_zero_from((void *)(uintptr_t)memory, 0);
	kfree(memory);
}

#define kvfree_sensitive(memory, size) kfree_sensitive(memory)

static inline CMWQ_MUST_CHECK char *kmemdup_nul(const char *from, size_t length, unsigned int flags)
{
	char *to = from ? (char *)kmalloc(length + 1, flags) : NULL;

	if (to) {
		memcpy(to, from, length);
		to[length] = '\0';
	}
	return to;
}

static inline CMWQ_MUST_CHECK char *kstrndup(const char *from, size_t most, unsigned int flags)
{
	size_t length = 0;
	char *to;

	if (!from)
		return NULL;
	while (length < most && from[length])
		length++;
	to = (char *)kmalloc(length + 1, flags);
	if (to) {
		memcpy(to, from, length);
		to[length] = '\0';
	}
	return to;
}

/* All or none: how many. */
static inline CMWQ_MUST_CHECK int kmem_cache_alloc_bulk(struct kmem_cache *cache,
	unsigned int flags, size_t n, void **objects)
{
	size_t i;

	for (i = 0; i < n; i++) {
		objects[i] = kmem_cache_alloc(cache, flags);
		if (!objects[i]) {
			while (i--)
				kmem_cache_free(cache, objects[i]);
			return 0;
		}
	}
	return (int)n;
}

static inline void kmem_cache_free_bulk(struct kmem_cache *cache, size_t n, void **objects)
{
	while (n--)
		kmem_cache_free(cache, objects[n]);
}

#include <linux/cleanup.h>
#ifdef DEFINE_FREE
DEFINE_FREE(kfree, void *, kfree(_T));
DEFINE_FREE(kvfree, void *, kfree(_T));
#endif

#endif
#endif

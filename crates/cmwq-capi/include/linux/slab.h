/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: memory, from malloc(). Flags are accepted; of them only __GFP_ZERO means anything. A program that brings its own defines CMWQ_NO_SLAB.
 */
#ifndef CMWQ_LINUX_SLAB_H
#define CMWQ_LINUX_SLAB_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SLAB
#if defined(__has_include_next)
#if __has_include_next(<linux/slab.h>)
#include_next <linux/slab.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_SLAB

#include <linux/types.h>
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

static inline void *kmalloc(size_t size, unsigned int flags)
{
	return flags & __GFP_ZERO ? calloc(1, size) : malloc(size);
}

static inline void *kzalloc(size_t size, unsigned int flags)
{
	return kmalloc(size, flags | __GFP_ZERO);
}

/* NULL if n * size is too large a number. */
static inline void *kmalloc_array(size_t n, size_t size, unsigned int flags)
{
	return size && n > SIZE_MAX / size ? NULL : kmalloc(n * size, flags);
}

static inline void *kcalloc(size_t n, size_t size, unsigned int flags)
{
	return kmalloc_array(n, size, flags | __GFP_ZERO);
}

static inline void *krealloc(const void *old, size_t size, unsigned int flags)
{
	(void)flags;
	return realloc((void *)(uintptr_t)old, size);
}

static inline void kfree(const void *memory)
{
	free((void *)(uintptr_t)memory);
}

static inline void *kmemdup(const void *from, size_t size, unsigned int flags)
{
	void *to = kmalloc(size, flags);

	return to ? memcpy(to, from, size) : NULL;
}

static inline char *kstrdup(const char *from, unsigned int flags)
{
	return from ? (char *)kmemdup(from, strlen(from) + 1, flags) : NULL;
}

#define kvmalloc(size, flags) kmalloc((size), (flags))
#define kvzalloc(size, flags) kzalloc((size), (flags))
#define kvmalloc_array(n, size, flags) kmalloc_array((n), (size), (flags))
#define kvcalloc(n, size, flags) kcalloc((n), (size), (flags))
#define kvfree(memory) kfree(memory)

#endif
#endif

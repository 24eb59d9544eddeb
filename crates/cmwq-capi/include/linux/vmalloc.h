/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: memory in whole pages, from malloc(). A program that brings its own defines CMWQ_NO_SLAB.
 */
#ifndef CMWQ_LINUX_VMALLOC_H
#define CMWQ_LINUX_VMALLOC_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SLAB
#if defined(__has_include_next)
#if __has_include_next(<linux/vmalloc.h>)
#include_next <linux/vmalloc.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_SLAB

#include <linux/cmwq_page.h>
#include <linux/slab.h>

static inline void *__vmalloc(unsigned long size, unsigned int flags)
{
	void *memory = size && size <= SIZE_MAX / 2 ? aligned_alloc(PAGE_SIZE, PAGE_ALIGN(size)) : NULL;

	return memory && flags & __GFP_ZERO ? memset(memory, 0, size) : memory;
}

static inline void *vmalloc(unsigned long size)
{
	return __vmalloc(size, GFP_KERNEL);
}

static inline void *vzalloc(unsigned long size)
{
	return __vmalloc(size, __GFP_ZERO);
}

/* NULL if n * size is too large a number. */
static inline void *vmalloc_array(size_t n, size_t size)
{
	return vmalloc(size_mul(n, size));
}

static inline void *vcalloc(size_t n, size_t size)
{
	return vzalloc(size_mul(n, size));
}

static inline void vfree(const void *memory)
{
	kfree(memory);
}

#define vfree_atomic(memory) vfree(memory)
/* Where the memory lies is the system's affair. */
#define vmalloc_node(size, node) vmalloc(size)
#define vzalloc_node(size, node) vzalloc(size)

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: memory in whole pages,
 * from malloc(). A program that brings its own defines CMWQ_NO_SLAB.
 */
#ifndef CMWQ_LINUX_VMALLOC_H
#define CMWQ_LINUX_VMALLOC_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SLAB
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/vmalloc.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SLAB

#include <linux/cmwq_page.h>
#include <linux/slab.h>

static inline CMWQ_MUST_CHECK void *__vmalloc(unsigned long size, unsigned int flags)
{
	void *memory = size && size <= SIZE_MAX / 2 ? aligned_alloc(PAGE_SIZE, PAGE_ALIGN(size))
						    : NULL;

	return memory && flags & __GFP_ZERO ? memset(memory, 0, size) : memory;
}

static inline CMWQ_MUST_CHECK void *vmalloc(unsigned long size)
{
	return __vmalloc(size, GFP_KERNEL);
}

static inline CMWQ_MUST_CHECK void *vzalloc(unsigned long size)
{
	return __vmalloc(size, __GFP_ZERO);
}

/* Returns NULL if n * size is too large a number. */
static inline CMWQ_MUST_CHECK void *vmalloc_array(size_t n, size_t size)
{
	return vmalloc(size_mul(n, size));
}

static inline CMWQ_MUST_CHECK void *vcalloc(size_t n, size_t size)
{
	return vzalloc(size_mul(n, size));
}

static inline void vfree(const void *memory)
{
	kfree(memory);
}

#define vfree_atomic(memory) vfree(memory)
/* The system decides where the memory lies. */
#define vmalloc_node(size, node) vmalloc(size)
#define vzalloc_node(size, node) vzalloc(size)

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: pages, from malloc(). A
 * program that brings its own defines CMWQ_NO_SLAB.
 */
#ifndef CMWQ_LINUX_GFP_H
#define CMWQ_LINUX_GFP_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SLAB
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/gfp.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SLAB

#include <linux/slab.h>
#include <linux/cmwq_page.h>

static inline CMWQ_MUST_CHECK unsigned long __get_free_pages(unsigned int flags, unsigned int order)
{
	void *pages = aligned_alloc(PAGE_SIZE, PAGE_SIZE << order);

	if (pages && flags & __GFP_ZERO)
		memset(pages, 0, PAGE_SIZE << order);
	return (unsigned long)(uintptr_t)pages;
}

static inline void free_pages(unsigned long pages, unsigned int order)
{
	(void)order;
	free((void *)(uintptr_t)pages);
}

#define __get_free_page(flags) __get_free_pages((flags), 0)
#define get_zeroed_page(flags) __get_free_pages((flags) | __GFP_ZERO, 0)
#define free_page(page) free_pages((page), 0)

#endif
#endif

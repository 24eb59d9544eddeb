/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: what code around
 * workqueues includes it for: memory and the size of a page. A program that brings its own defines
 * CMWQ_NO_SLAB.
 */
#ifndef CMWQ_LINUX_MM_H
#define CMWQ_LINUX_MM_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SLAB
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/mm.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SLAB

#include <linux/gfp.h>
#include <linux/vmalloc.h>

#define offset_in_page(ptr) ((unsigned long)(uintptr_t)(ptr) & (PAGE_SIZE - 1))

#endif
#endif

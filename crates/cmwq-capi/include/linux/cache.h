/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: the size of a line of
 * the cache, as far as the compiler must know it. A program that brings its own defines
 * CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_CACHE_H
#define CMWQ_LINUX_CACHE_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/cache.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <linux/cmwq_compiler.h>

#ifndef L1_CACHE_SHIFT
#define L1_CACHE_SHIFT 6
#endif
#ifndef L1_CACHE_BYTES
#define L1_CACHE_BYTES (1 << L1_CACHE_SHIFT)
#endif
#ifndef SMP_CACHE_BYTES
#define SMP_CACHE_BYTES L1_CACHE_BYTES
#endif
#ifndef __cacheline_aligned_in_smp
#define __cacheline_aligned_in_smp ____cacheline_aligned
#endif

#endif
#endif

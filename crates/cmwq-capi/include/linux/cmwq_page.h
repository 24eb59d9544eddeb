/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: the size of a page, as
 * buffers are counted by: 4096 bytes, whatever the machine has.
 */
#ifndef CMWQ_LINUX_CMWQ_PAGE_H
#define CMWQ_LINUX_CMWQ_PAGE_H

#include <linux/cmwq_base.h>

#ifndef PAGE_SHIFT
#define PAGE_SHIFT 12
#endif
#ifndef PAGE_SIZE
#define PAGE_SIZE (1UL << PAGE_SHIFT)
#endif
#ifndef PAGE_ALIGN
#define PAGE_ALIGN(n) (((n) + PAGE_SIZE - 1) & PAGE_MASK)
#endif
#ifndef PAGE_MASK
#define PAGE_MASK (~(PAGE_SIZE - 1))
#endif

#endif

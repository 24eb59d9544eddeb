/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: powers of 2. A program
 * that brings its own defines CMWQ_NO_BITOPS.
 */
#ifndef CMWQ_LINUX_LOG2_H
#define CMWQ_LINUX_LOG2_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_BITOPS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/log2.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_BITOPS

#include <linux/bitops.h>

#define ilog2(n) ((int)__fls((unsigned long)(n)))
#define is_power_of_2(n) ((n) != 0 && ((n) & ((n) - 1)) == 0)
#define roundup_pow_of_two(n) (1UL << order_base_2(n))
#define rounddown_pow_of_two(n) (1UL << ilog2(n))
/* The least power that is n or more. */
#define order_base_2(n) ((n) > 1 ? ilog2((n) - 1) + 1 : 0)
#define get_count_order_long(n) get_count_order(n)
#define get_count_order(n) ((n) ? order_base_2(n) : -1)

#endif
#endif

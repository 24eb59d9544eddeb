/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: there are no soft
 * interrupts to keep away: these do nothing. A program that brings its own defines CMWQ_NO_PREEMPT.
 */
#ifndef CMWQ_LINUX_BOTTOM_HALF_H
#define CMWQ_LINUX_BOTTOM_HALF_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_PREEMPT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/bottom_half.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_PREEMPT

#define local_bh_disable() ((void)0)
#define local_bh_enable() ((void)0)
#define in_softirq() 0
#define in_serving_softirq() 0

#endif
#endif

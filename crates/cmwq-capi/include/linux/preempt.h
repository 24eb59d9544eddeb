/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: there is nothing that
 * keeps a thread on its CPU: these do nothing. A program that brings its own defines
 * CMWQ_NO_PREEMPT.
 */
#ifndef CMWQ_LINUX_PREEMPT_H
#define CMWQ_LINUX_PREEMPT_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_PREEMPT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/preempt.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_PREEMPT

#define preempt_disable() ((void)0)
#define preempt_enable() ((void)0)
#define migrate_disable() ((void)0)
#define migrate_enable() ((void)0)
#define preempt_disable_notrace() ((void)0)
#define preempt_enable_notrace() ((void)0)
#define preempt_enable_no_resched() ((void)0)
#define preempt_count() 0
#define preemptible() 1
#define in_atomic() 0
#define in_hardirq() 0
#define in_interrupt() 0
#define in_irq() 0
#define in_nmi() 0
#define in_task() 1

#endif
#endif

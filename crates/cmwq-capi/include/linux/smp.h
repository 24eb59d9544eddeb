/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: the CPU that the caller
 * is on, as a hint: the thread may move at any time. A program that brings its own defines
 * CMWQ_NO_CPUMASK.
 */
#ifndef CMWQ_LINUX_SMP_H
#define CMWQ_LINUX_SMP_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CPUMASK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/smp.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_CPUMASK

#include <linux/cpumask.h>
#include <linux/preempt.h>

#define get_cpu() (cmwq_current_cpu())
#define put_cpu() ((void)0)

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: the CPU that the caller is on, as a hint: the thread may move at any time. A program that
 * brings its own defines CMWQ_NO_CPUMASK.
 */
#ifndef CMWQ_LINUX_SMP_H
#define CMWQ_LINUX_SMP_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CPUMASK
#if defined(__has_include_next)
#if __has_include_next(<linux/smp.h>)
#include_next <linux/smp.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_CPUMASK

#include <linux/cpumask.h>
#include <linux/preempt.h>

#define get_cpu() (cmwq_current_cpu())
#define put_cpu() ((void)0)

#endif
#endif

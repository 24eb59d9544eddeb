/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: there are no soft interrupts to keep away: these do nothing. A program that brings its own defines CMWQ_NO_PREEMPT.
 */
#ifndef CMWQ_LINUX_BOTTOM_HALF_H
#define CMWQ_LINUX_BOTTOM_HALF_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_PREEMPT
#if defined(__has_include_next)
#if __has_include_next(<linux/bottom_half.h>)
#include_next <linux/bottom_half.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_PREEMPT

#define local_bh_disable() ((void)0)
#define local_bh_enable() ((void)0)
#define in_softirq() 0
#define in_serving_softirq() 0

#endif
#endif

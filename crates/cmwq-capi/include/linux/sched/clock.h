/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: a part of <linux/sched.h>. A program that brings its own defines CMWQ_NO_SCHED.
 */
#ifndef CMWQ_LINUX_SCHED_CLOCK_H
#define CMWQ_LINUX_SCHED_CLOCK_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SCHED
#if defined(__has_include_next)
#if __has_include_next(<linux/sched/clock.h>)
#include_next <linux/sched/clock.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_SCHED

#include <linux/sched.h>
#include <linux/ktime.h>

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: a part of <linux/sched.h>. A program that brings its own defines CMWQ_NO_SCHED.
 */
#ifndef CMWQ_LINUX_SCHED_SIGNAL_H
#define CMWQ_LINUX_SCHED_SIGNAL_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SCHED
#if defined(__has_include_next)
#if __has_include_next(<linux/sched/signal.h>)
#include_next <linux/sched/signal.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_SCHED

#include <linux/sched.h>

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kernel-shaped, for user space; part of cmwq: a part of <linux/ktime.h> in the kernel. */
#ifndef CMWQ_LINUX_TIMEKEEPING_H
#define CMWQ_LINUX_TIMEKEEPING_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KTIME
#if defined(__has_include_next)
#if __has_include_next(<linux/timekeeping.h>)
#include_next <linux/timekeeping.h>
#endif
#endif
#else
#include <linux/ktime.h>
#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kernel-shaped, for user space; part of cmwq: a part of <linux/timer.h> in the kernel. */
#ifndef CMWQ_LINUX_TIMER_TYPES_H
#define CMWQ_LINUX_TIMER_TYPES_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_TIMER
#if defined(__has_include_next)
#if __has_include_next(<linux/timer_types.h>)
#include_next <linux/timer_types.h>
#endif
#endif
#else
#include <linux/timer.h>
#endif
#endif

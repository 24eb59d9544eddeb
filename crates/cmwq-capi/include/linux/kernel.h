/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: what code around workqueues uses of the kernel's header. Each macro steps aside for
 * one that is defined already; all do with CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_KERNEL_H
#define CMWQ_LINUX_KERNEL_H

#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#if defined(__has_include_next)
#if __has_include_next(<linux/kernel.h>)
#include_next <linux/kernel.h>
#endif
#endif

#include <linux/container_of.h>
#include <linux/types.h>

#ifndef CMWQ_NO_KERNEL_MACROS
#include <linux/printk.h>
/* C++ has its own. */
#ifndef __cplusplus
#ifndef min
#define min(a, b)                              \
	__extension__({                        \
		__typeof__(a) cmwq_a = (a);    \
		__typeof__(b) cmwq_b = (b);    \
		cmwq_a < cmwq_b ? cmwq_a : cmwq_b; \
	})
#endif
#ifndef max
#define max(a, b)                              \
	__extension__({                        \
		__typeof__(a) cmwq_a = (a);    \
		__typeof__(b) cmwq_b = (b);    \
		cmwq_a > cmwq_b ? cmwq_a : cmwq_b; \
	})
#endif
#endif
#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#endif
#ifndef READ_ONCE
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#endif
#ifndef WRITE_ONCE
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#endif
#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif
#ifndef __maybe_unused
#define __maybe_unused __attribute__((__unused__))
#endif
#endif

#endif

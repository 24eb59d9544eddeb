/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: what code around
 * workqueues uses of the kernel's header. Each macro steps aside for one that is defined already;
 * all do with CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_KERNEL_H
#define CMWQ_LINUX_KERNEL_H

#include <linux/cmwq_base.h>
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/kernel.h"
#include <linux/cmwq_next.h>

#include <linux/container_of.h>
#include <linux/types.h>

#ifndef CMWQ_NO_KERNEL_MACROS
#include <linux/cmwq_compiler.h>
#include <linux/build_bug.h>
#include <linux/cmwq_math.h>
#include <linux/kstrtox.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/printk.h>
#ifndef DIV_ROUND_UP
#define DIV_ROUND_UP(n, by) (((n) + (by) - 1) / (by))
#endif
#ifndef round_up
#define round_up(n, to) ((((n) - 1) | ((__typeof__(n))(to) - 1)) + 1)
#endif
#ifndef round_down
#define round_down(n, to) ((n) & ~((__typeof__(n))(to) - 1))
#endif
#ifndef roundup
#define roundup(n, to) (((n) + (to) - 1) / (to) * (to))
#endif
#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#endif
#endif

#endif

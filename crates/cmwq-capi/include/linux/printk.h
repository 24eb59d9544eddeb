/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: messages go to standard
 * error; levels are not shown, debug messages not said. A program that brings its own defines
 * CMWQ_NO_PRINTK.
 */
#ifndef CMWQ_LINUX_PRINTK_H
#define CMWQ_LINUX_PRINTK_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_PRINTK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/printk.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_PRINTK

#include <linux/cmwq_compiler.h>
#include <linux/cmwq_format.h>
#include <linux/ratelimit.h>
#include <stdio.h>

#define KERN_EMERG ""
#define KERN_ALERT ""
#define KERN_CRIT ""
#define KERN_ERR ""
#define KERN_WARNING ""
#define KERN_NOTICE ""
#define KERN_INFO ""
#define KERN_DEBUG ""
#define KERN_CONT ""

/* A build defines it for each module. */
#ifndef KBUILD_MODNAME
#define KBUILD_MODNAME "module"
#endif

/* Defined by a program before the first header, as in the kernel. */
#ifndef pr_fmt
#define pr_fmt(fmt) fmt
#endif

#define printk(...) cmwq_printk(__VA_ARGS__)
#define no_printk(...)                       \
	do {                                 \
		if (0)                       \
			printk(__VA_ARGS__); \
	} while (0)

#define CMWQ_PR_ONE(fmt) pr_fmt(fmt)
#define CMWQ_PR_MANY(fmt, ...) pr_fmt(fmt), __VA_ARGS__
#define CMWQ_PR(...) CMWQ_BY_COUNT(CMWQ_PR_, __VA_ARGS__)(__VA_ARGS__)
#define pr_debug(...) no_printk(CMWQ_PR(__VA_ARGS__))
#define pr_emerg(...) printk(CMWQ_PR(__VA_ARGS__))
#define pr_alert(...) printk(CMWQ_PR(__VA_ARGS__))
#define pr_crit(...) printk(CMWQ_PR(__VA_ARGS__))
#define pr_err(...) printk(CMWQ_PR(__VA_ARGS__))
#define pr_warn(...) printk(CMWQ_PR(__VA_ARGS__))
#define pr_notice(...) printk(CMWQ_PR(__VA_ARGS__))
#define pr_info(...) printk(CMWQ_PR(__VA_ARGS__))
#define pr_cont(...) printk(__VA_ARGS__)

/* ---- once, and not too often: ten in five seconds ---- */

#define printk_once(...)                                                             \
	do {                                                                         \
		static char cmwq_said;                                               \
		if (!__atomic_test_and_set(&cmwq_said, __ATOMIC_RELAXED))            \
			printk(__VA_ARGS__);                                         \
	} while (0)
#define pr_err_once(...) printk_once(CMWQ_PR(__VA_ARGS__))
#define pr_warn_once(...) printk_once(CMWQ_PR(__VA_ARGS__))
#define pr_notice_once(...) printk_once(CMWQ_PR(__VA_ARGS__))
#define pr_info_once(...) printk_once(CMWQ_PR(__VA_ARGS__))
#define pr_devel(...) pr_debug(__VA_ARGS__)

#define printk_ratelimited(...)                                                       \
	do {                                                                          \
		static DEFINE_RATELIMIT_STATE(cmwq_limit, DEFAULT_RATELIMIT_INTERVAL, \
			DEFAULT_RATELIMIT_BURST);                                     \
		if (__ratelimit(&cmwq_limit))                                         \
			printk(__VA_ARGS__);                                          \
	} while (0)
#define pr_err_ratelimited(...) printk_ratelimited(CMWQ_PR(__VA_ARGS__))
#define pr_warn_ratelimited(...) printk_ratelimited(CMWQ_PR(__VA_ARGS__))
#define pr_notice_ratelimited(...) printk_ratelimited(CMWQ_PR(__VA_ARGS__))
#define pr_info_ratelimited(...) printk_ratelimited(CMWQ_PR(__VA_ARGS__))
#define pr_debug_ratelimited(...) pr_debug(__VA_ARGS__)
#define printk_deferred(...) printk(__VA_ARGS__)

#endif
#endif

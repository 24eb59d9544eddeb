/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: messages go to standard error; levels are not shown, debug messages not said. A program that brings its own defines CMWQ_NO_PRINTK.
 */
#ifndef CMWQ_LINUX_PRINTK_H
#define CMWQ_LINUX_PRINTK_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_PRINTK
#if defined(__has_include_next)
#if __has_include_next(<linux/printk.h>)
#include_next <linux/printk.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_PRINTK

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

/* Defined by a program before the first header, as in the kernel. */
#ifndef pr_fmt
#define pr_fmt(fmt) fmt
#endif

#define printk(...) fprintf(stderr, __VA_ARGS__)
#define pr_emerg(fmt, ...) printk(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_alert(fmt, ...) printk(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_crit(fmt, ...) printk(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_err(fmt, ...) printk(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_warn(fmt, ...) printk(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_notice(fmt, ...) printk(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_info(fmt, ...) printk(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_cont(fmt, ...) printk(fmt, ##__VA_ARGS__)
#define pr_debug(fmt, ...)                                  \
	do {                                                \
		if (0)                                      \
			printk(pr_fmt(fmt), ##__VA_ARGS__); \
	} while (0)

#endif
#endif

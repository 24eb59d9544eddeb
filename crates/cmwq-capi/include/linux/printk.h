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

#include <linux/cmwq_format.h>
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

/* ---- once, and not too often: ten in five seconds ---- */

#define printk_once(...)                                                             \
	do {                                                                         \
		static char cmwq_said;                                               \
		if (!__atomic_test_and_set(&cmwq_said, __ATOMIC_RELAXED))            \
			printk(__VA_ARGS__);                                         \
	} while (0)
#define pr_err_once(fmt, ...) printk_once(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_warn_once(fmt, ...) printk_once(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_notice_once(fmt, ...) printk_once(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_info_once(fmt, ...) printk_once(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_devel(fmt, ...) pr_debug(fmt, ##__VA_ARGS__)

struct cmwq_ratelimit {
	uint64_t began_ns;
	unsigned int said;
};

/* A message or two more may come where threads say it at once. */
static inline int cmwq_may_say(struct cmwq_ratelimit *limit)
{
	uint64_t now = cmwq_now_ns(), began = __atomic_load_n(&limit->began_ns, __ATOMIC_RELAXED);

	if (!began || now - began > 5000000000ull) {
		__atomic_store_n(&limit->began_ns, now, __ATOMIC_RELAXED);
		__atomic_store_n(&limit->said, 0, __ATOMIC_RELAXED);
	}
	return __atomic_fetch_add(&limit->said, 1, __ATOMIC_RELAXED) < 10;
}

#define printk_ratelimited(...)                                     \
	do {                                                        \
		static struct cmwq_ratelimit cmwq_limit;            \
		if (cmwq_may_say(&cmwq_limit))                      \
			printk(__VA_ARGS__);                        \
	} while (0)
#define pr_err_ratelimited(fmt, ...) printk_ratelimited(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_warn_ratelimited(fmt, ...) printk_ratelimited(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_notice_ratelimited(fmt, ...) printk_ratelimited(pr_fmt(fmt), ##__VA_ARGS__)
#define pr_info_ratelimited(fmt, ...) printk_ratelimited(pr_fmt(fmt), ##__VA_ARGS__)

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: no thread is frozen. A program that brings its own defines CMWQ_NO_FREEZER.
 */
#ifndef CMWQ_LINUX_FREEZER_H
#define CMWQ_LINUX_FREEZER_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_FREEZER
#if defined(__has_include_next)
#if __has_include_next(<linux/freezer.h>)
#include_next <linux/freezer.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_FREEZER

#define try_to_freeze() 0
#define freezing(task) ((void)(task), 0)
#define set_freezable() ((void)0)

#endif
#endif

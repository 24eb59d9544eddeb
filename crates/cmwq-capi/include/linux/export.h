/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: marks of what other modules may use. A program that brings its own defines CMWQ_NO_MODULE.
 */
#ifndef CMWQ_LINUX_EXPORT_H
#define CMWQ_LINUX_EXPORT_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_MODULE
#if defined(__has_include_next)
#if __has_include_next(<linux/export.h>)
#include_next <linux/export.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_MODULE

#include <linux/module.h>

#endif
#endif

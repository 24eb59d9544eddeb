/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: rounding. A program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_MATH_H
#define CMWQ_LINUX_MATH_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#if defined(__has_include_next)
#if __has_include_next(<linux/math.h>)
#include_next <linux/math.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <linux/kernel.h>

#endif
#endif

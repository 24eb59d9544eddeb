/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kernel-shaped, for user space; part of cmwq: the number of elements of an array. */
#ifndef CMWQ_LINUX_ARRAY_SIZE_H
#define CMWQ_LINUX_ARRAY_SIZE_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#if defined(__has_include_next)
#if __has_include_next(<linux/array_size.h>)
#include_next <linux/array_size.h>
#endif
#endif
#else
#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#endif
#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: marks of types. A program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_COMPILER_TYPES_H
#define CMWQ_LINUX_COMPILER_TYPES_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#if defined(__has_include_next)
#if __has_include_next(<linux/compiler_types.h>)
#include_next <linux/compiler_types.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <linux/compiler.h>

#endif
#endif

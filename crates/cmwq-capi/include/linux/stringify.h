/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: a text of what a macro stands for. A program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_STRINGIFY_H
#define CMWQ_LINUX_STRINGIFY_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#if defined(__has_include_next)
#if __has_include_next(<linux/stringify.h>)
#include_next <linux/stringify.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#ifndef __stringify
#define __stringify_1(...) #__VA_ARGS__
#define __stringify(...) __stringify_1(__VA_ARGS__)
#endif

#endif
#endif

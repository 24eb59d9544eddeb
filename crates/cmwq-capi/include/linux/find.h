/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kernel-shaped, for user space; part of cmwq: a part of <linux/bitmap.h> in the kernel. */
#ifndef CMWQ_LINUX_FIND_H
#define CMWQ_LINUX_FIND_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_BITOPS
#if defined(__has_include_next)
#if __has_include_next(<linux/find.h>)
#include_next <linux/find.h>
#endif
#endif
#else
#include <linux/bitmap.h>
#endif
#endif

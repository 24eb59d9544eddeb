/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: the standard's, and the kernel's own numbers.
 */
#ifndef CMWQ_LINUX_ERRNO_H
#define CMWQ_LINUX_ERRNO_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#if defined(__has_include_next)
#if __has_include_next(<linux/errno.h>)
#include_next <linux/errno.h>
#endif
#endif

#include <errno.h>

#ifndef ERESTARTSYS
#define ERESTARTSYS 512
#endif
#ifndef ENOIOCTLCMD
#define ENOIOCTLCMD 515
#endif
#ifndef EPROBE_DEFER
#define EPROBE_DEFER 517
#endif
#ifndef EIOCBQUEUED
#define EIOCBQUEUED 529
#endif
#ifndef ENOTSUPP
#define ENOTSUPP 524
#endif

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kernel-shaped, for user space; part of cmwq: marks that mean nothing here. */
#ifndef CMWQ_LINUX_LINKAGE_H
#define CMWQ_LINUX_LINKAGE_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_MODULE
#if defined(__has_include_next)
#if __has_include_next(<linux/linkage.h>)
#include_next <linux/linkage.h>
#endif
#endif
#else
#ifndef asmlinkage
#define asmlinkage
#endif
#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kernel-shaped, for user space; part of cmwq: how many CPUs there can be. */
#ifndef CMWQ_LINUX_THREADS_H
#define CMWQ_LINUX_THREADS_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CPUMASK
#if defined(__has_include_next)
#if __has_include_next(<linux/threads.h>)
#include_next <linux/threads.h>
#endif
#endif
#else
#ifndef NR_CPUS
#define NR_CPUS CMWQ_MAX_CPUS
#endif
#endif
#endif

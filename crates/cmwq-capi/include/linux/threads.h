/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: how many CPUs there can
 * be.
 */
#ifndef CMWQ_LINUX_THREADS_H
#define CMWQ_LINUX_THREADS_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CPUMASK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/threads.h"
#include <linux/cmwq_next.h>
#else
#ifndef NR_CPUS
#define NR_CPUS CMWQ_MAX_CPUS
#endif
#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: CPUs that come and go:
 * the lock keeps away the callbacks for changes. A program that brings its own defines
 * CMWQ_NO_CPUMASK.
 */
#ifndef CMWQ_LINUX_CPU_H
#define CMWQ_LINUX_CPU_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CPUMASK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/cpu.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_CPUMASK

#include <linux/bitmap.h>
#include <linux/cpuhotplug.h>
#include <linux/kernel.h>
#include <linux/smp.h>

#define cpus_write_lock() ((void)cmwq_cpus_lock(true, true))
#define cpus_write_unlock() cmwq_cpus_unlock(true)

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: rounding to powers of 2.
 * A program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_ALIGN_H
#define CMWQ_LINUX_ALIGN_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/align.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <linux/cmwq_math.h>

#endif
#endif

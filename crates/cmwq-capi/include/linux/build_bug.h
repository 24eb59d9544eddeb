/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: checks while compiling.
 * A program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_BUILD_BUG_H
#define CMWQ_LINUX_BUILD_BUG_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/build_bug.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <assert.h>

#ifndef BUILD_BUG_ON_MSG
#define BUILD_BUG_ON_MSG(condition, text) CMWQ_ASSERT(!(condition), text)
#endif
#ifndef BUILD_BUG_ON
#define BUILD_BUG_ON(condition) CMWQ_ASSERT(!(condition), "BUILD_BUG_ON: " #condition)
#endif
#ifndef BUILD_BUG_ON_NOT_POWER_OF_2
#define BUILD_BUG_ON_NOT_POWER_OF_2(n) \
	CMWQ_ASSERT((n) != 0 && ((n) & ((n) - 1)) == 0, #n " is a power of 2")
#endif
#ifndef __cplusplus
/* 0, as part of an expression. */
#ifndef BUILD_BUG_ON_ZERO
#define BUILD_BUG_ON_ZERO(condition) \
	((int)sizeof(struct { int cmwq_bits : (condition) ? -1 : 1; }) * 0)
#endif
#endif
#ifndef BUILD_BUG
#define BUILD_BUG() CMWQ_ASSERT(0, "BUILD_BUG")
#endif

#endif
#endif

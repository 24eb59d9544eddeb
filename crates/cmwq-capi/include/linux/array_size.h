/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: the number of elements
 * of an array.
 */
#ifndef CMWQ_LINUX_ARRAY_SIZE_H
#define CMWQ_LINUX_ARRAY_SIZE_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/array_size.h"
#include <linux/cmwq_next.h>
#else
#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#endif
#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* This header of cmwq is a part of <linux/cpumask.h>, as in the kernel. */
#ifndef CMWQ_LINUX_CPUMASK_TYPES_H
#define CMWQ_LINUX_CPUMASK_TYPES_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CPUMASK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/cpumask_types.h"
#include <linux/cmwq_next.h>
#else
#include <linux/cpumask.h>
#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* This header of cmwq is a part of <linux/spinlock.h>, as in the kernel. */
#ifndef CMWQ_LINUX_SPINLOCK_TYPES_H
#define CMWQ_LINUX_SPINLOCK_TYPES_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SPINLOCK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/spinlock_types.h"
#include <linux/cmwq_next.h>
#else
#include <linux/spinlock.h>
#endif
#endif

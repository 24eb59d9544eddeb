/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* This header of cmwq is a part of <linux/mutex.h>, as in the kernel. */
#ifndef CMWQ_LINUX_MUTEX_TYPES_H
#define CMWQ_LINUX_MUTEX_TYPES_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_MUTEX
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/mutex_types.h"
#include <linux/cmwq_next.h>
#else
#include <linux/mutex.h>
#endif
#endif

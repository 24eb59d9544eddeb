/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* This header of cmwq is a part of <linux/ktime.h>, as in the kernel. */
#ifndef CMWQ_LINUX_TIMEKEEPING_H
#define CMWQ_LINUX_TIMEKEEPING_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KTIME
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/timekeeping.h"
#include <linux/cmwq_next.h>
#else
#include <linux/ktime.h>
#endif
#endif

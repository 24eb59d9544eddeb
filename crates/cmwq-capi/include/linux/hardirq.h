/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* This header of cmwq is a part of <linux/preempt.h>, as in the kernel. */
#ifndef CMWQ_LINUX_HARDIRQ_H
#define CMWQ_LINUX_HARDIRQ_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_PREEMPT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/hardirq.h"
#include <linux/cmwq_next.h>
#else
#include <linux/preempt.h>
#endif
#endif

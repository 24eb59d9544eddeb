/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq is a part of <linux/sched.h>, as in the kernel. A program that brings its own
 * defines CMWQ_NO_SCHED.
 */
#ifndef CMWQ_LINUX_SCHED_CLOCK_H
#define CMWQ_LINUX_SCHED_CLOCK_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SCHED
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/sched/clock.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SCHED

#include <linux/sched.h>
#include <linux/ktime.h>

#endif
#endif

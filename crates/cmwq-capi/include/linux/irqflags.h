/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: there are no interrupts:
 * these do nothing. A program that brings its own defines CMWQ_NO_IRQFLAGS.
 */
#ifndef CMWQ_LINUX_IRQFLAGS_H
#define CMWQ_LINUX_IRQFLAGS_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_IRQFLAGS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/irqflags.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_IRQFLAGS

#define local_irq_disable() ((void)0)
#define local_irq_enable() ((void)0)
#define local_irq_save(flags) ((void)((flags) = 0))
#define local_irq_restore(flags) ((void)(flags))
#define local_bh_disable() ((void)0)
#define local_bh_enable() ((void)0)
#define irqs_disabled() 0

#endif
#endif

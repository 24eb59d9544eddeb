/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: items that are
 * cancelled, and waited for, when their device goes. A program that brings its own defines
 * CMWQ_NO_KOBJECT.
 */
#ifndef CMWQ_LINUX_DEVM_HELPERS_H
#define CMWQ_LINUX_DEVM_HELPERS_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KOBJECT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/devm-helpers.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KOBJECT

#include <linux/device.h>
#include <linux/workqueue.h>

static inline void cmwq_devm_cancel_work(void *work)
{
	cancel_work_sync((struct work_struct *)work);
}

static inline void cmwq_devm_cancel_delayed_work(void *work)
{
	cancel_delayed_work_sync((struct delayed_work *)work);
}

static inline CMWQ_MUST_CHECK int devm_work_autocancel(struct device *dev, struct work_struct *work,
	work_func_t func)
{
	INIT_WORK(work, func);
	return devm_add_action(dev, cmwq_devm_cancel_work, work);
}

static inline CMWQ_MUST_CHECK int devm_delayed_work_autocancel(struct device *dev,
	struct delayed_work *work, work_func_t func)
{
	INIT_DELAYED_WORK(work, func);
	return devm_add_action(dev, cmwq_devm_cancel_delayed_work, work);
}

#endif
#endif

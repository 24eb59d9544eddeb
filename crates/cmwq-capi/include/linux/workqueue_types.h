/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* This header of cmwq is a part of <linux/workqueue.h>, as in the kernel. */
#ifndef CMWQ_LINUX_WORKQUEUE_TYPES_H
#define CMWQ_LINUX_WORKQUEUE_TYPES_H

#include <linux/cmwq_base.h>
#include <linux/workqueue.h>
#endif

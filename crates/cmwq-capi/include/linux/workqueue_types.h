/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kernel-shaped, for user space; part of cmwq: a part of <linux/workqueue.h> in the kernel. */
#ifndef CMWQ_LINUX_WORKQUEUE_TYPES_H
#define CMWQ_LINUX_WORKQUEUE_TYPES_H

#include <linux/cmwq_base.h>
#include <linux/workqueue.h>
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: the standard's, and the
 * kernel's own numbers.
 */
#ifndef CMWQ_LINUX_ERRNO_H
#define CMWQ_LINUX_ERRNO_H

#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/errno.h"
#include <linux/cmwq_next.h>

#include <errno.h>

#ifndef ERESTARTSYS
#define ERESTARTSYS 512
#endif
#ifndef ENOIOCTLCMD
#define ENOIOCTLCMD 515
#endif
#ifndef EPROBE_DEFER
#define EPROBE_DEFER 517
#endif
#ifndef EIOCBQUEUED
#define EIOCBQUEUED 529
#endif
#ifndef ENOTSUPP
#define ENOTSUPP 524
#endif

#endif

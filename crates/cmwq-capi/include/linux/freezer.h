/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: no thread is frozen. A
 * program that brings its own defines CMWQ_NO_FREEZER.
 */
#ifndef CMWQ_LINUX_FREEZER_H
#define CMWQ_LINUX_FREEZER_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_FREEZER
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/freezer.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_FREEZER

#define try_to_freeze() 0
#define freezing(task) ((void)(task), 0)
#define set_freezable() ((void)0)

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: marks of what other
 * modules may use. A program that brings its own defines CMWQ_NO_MODULE.
 */
#ifndef CMWQ_LINUX_EXPORT_H
#define CMWQ_LINUX_EXPORT_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_MODULE
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/export.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_MODULE

#include <linux/module.h>

#endif
#endif

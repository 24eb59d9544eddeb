/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: marks that mean nothing
 * here.
 */
#ifndef CMWQ_LINUX_LINKAGE_H
#define CMWQ_LINUX_LINKAGE_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_MODULE
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/linkage.h"
#include <linux/cmwq_next.h>
#else
#ifndef asmlinkage
#define asmlinkage
#endif
#endif
#endif

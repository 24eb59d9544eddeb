/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* This header of cmwq is a part of <linux/bitmap.h>, as in the kernel. */
#ifndef CMWQ_LINUX_FIND_H
#define CMWQ_LINUX_FIND_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_BITOPS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/find.h"
#include <linux/cmwq_next.h>
#else
#include <linux/bitmap.h>
#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: searching in a sorted
 * array: the standard's. A program that brings its own defines CMWQ_NO_SORT.
 */
#ifndef CMWQ_LINUX_BSEARCH_H
#define CMWQ_LINUX_BSEARCH_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SORT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/bsearch.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SORT

#include <linux/sort.h>
#include <stdlib.h>

#endif
#endif

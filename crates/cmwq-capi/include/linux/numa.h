/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: numbers of NUMA nodes. A
 * program that brings its own defines CMWQ_NO_NODEMASK.
 */
#ifndef CMWQ_LINUX_NUMA_H
#define CMWQ_LINUX_NUMA_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_NODEMASK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/numa.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_NODEMASK

#ifndef NUMA_NO_NODE
#define NUMA_NO_NODE CMWQ_NODE_ANY
#endif
#define NODES_SHIFT 10
#define MAX_NUMNODES (1 << NODES_SHIFT)

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: how memory is asked for
 * means nothing here. A program that brings its own defines CMWQ_NO_SCHED.
 */
#ifndef CMWQ_LINUX_SCHED_MM_H
#define CMWQ_LINUX_SCHED_MM_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SCHED
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/sched/mm.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SCHED

#include <linux/sched.h>

#define memalloc_nofs_save() 0u
#define memalloc_nofs_restore(flags) ((void)(flags))
#define memalloc_noio_save() 0u
#define memalloc_noio_restore(flags) ((void)(flags))
#define memalloc_noreclaim_save() 0u
#define memalloc_noreclaim_restore(flags) ((void)(flags))

#endif
#endif

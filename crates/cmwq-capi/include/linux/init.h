/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: marks that mean nothing
 * here. A program that brings its own defines CMWQ_NO_MODULE.
 */
#ifndef CMWQ_LINUX_INIT_H
#define CMWQ_LINUX_INIT_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_MODULE
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/init.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_MODULE

/* Before: it has a member of that name. */
#include <stdio.h>
#include <stdlib.h>

/* Words of the standard library in C++. */
#ifndef __cplusplus
#ifndef __init
#define __init
#endif
#ifndef __exit
#define __exit
#endif
#ifndef __initdata
#define __initdata
#endif
#ifndef __ref
#define __ref
#endif
#ifndef __initconst
#define __initconst
#endif
#ifndef __exitdata
#define __exitdata
#endif
#endif

/*
 * Called before main(), in this order: early, core, postcore, arch, subsys, fs, device, late. What
 * fails says so.
 */
#define CMWQ_INITCALL(fn, priority)                                                            \
	__attribute__((__constructor__(priority))) static void cmwq_initcall_##fn(void)        \
	{                                                                                      \
		int cmwq_failed = fn();                                                        \
                                                                                               \
		if (cmwq_failed)                                                               \
			fprintf(stderr, "initcall " #fn " said %d\n", cmwq_failed);            \
	}                                                                                      \
	struct cmwq_initcall_end
#define early_initcall(fn) CMWQ_INITCALL(fn, 201)
#define pure_initcall(fn) CMWQ_INITCALL(fn, 202)
#define core_initcall(fn) CMWQ_INITCALL(fn, 202)
#define postcore_initcall(fn) CMWQ_INITCALL(fn, 203)
#define arch_initcall(fn) CMWQ_INITCALL(fn, 204)
#define subsys_initcall(fn) CMWQ_INITCALL(fn, 205)
#define fs_initcall(fn) CMWQ_INITCALL(fn, 206)
#define rootfs_initcall(fn) CMWQ_INITCALL(fn, 206)
#define device_initcall(fn) CMWQ_INITCALL(fn, 207)
#define late_initcall(fn) CMWQ_INITCALL(fn, 208)

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: a file that was a
 * module. module_init() and module_exit() make int init_module(void) and void cleanup_module(void),
 * which the program calls; what is declared for the kernel's loader means nothing. A program that
 * brings its own defines CMWQ_NO_MODULE.
 */
#ifndef CMWQ_LINUX_MODULE_H
#define CMWQ_LINUX_MODULE_H

#include <linux/cmwq_base.h>
/* The system has one as well: flags of finit_module(). */
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/module.h"
#include <linux/cmwq_next.h>

#ifndef CMWQ_NO_MODULE

#include <linux/init.h>
#include <linux/bug.h>
#ifndef __cplusplus
#include <linux/compiler.h>
#endif
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
int init_module(void);
void cleanup_module(void);
#ifdef __cplusplus
}
#endif

#define module_init(fn)         \
	int init_module(void)   \
	{                       \
		return fn();    \
	}                       \
	int init_module(void)
#define module_exit(fn)            \
	void cleanup_module(void)  \
	{                          \
		fn();              \
	}                          \
	void cleanup_module(void)

#define THIS_MODULE NULL
/* Nothing is unloaded. */
#define try_module_get(module) ((void)(module), true)
#define __module_get(module) ((void)(module))
#define module_put(module) ((void)(module))
/* A declaration that takes the semicolon. */
#define CMWQ_MODULE_NOTHING int init_module(void)
#define MODULE_LICENSE(text) CMWQ_MODULE_NOTHING
#define MODULE_AUTHOR(text) CMWQ_MODULE_NOTHING
#define MODULE_DESCRIPTION(text) CMWQ_MODULE_NOTHING
#define MODULE_VERSION(text) CMWQ_MODULE_NOTHING
#define EXPORT_SYMBOL(name) CMWQ_MODULE_NOTHING
#define EXPORT_SYMBOL_GPL(name) CMWQ_MODULE_NOTHING
#define EXPORT_SYMBOL_NS(name, space) CMWQ_MODULE_NOTHING
#define EXPORT_SYMBOL_NS_GPL(name, space) CMWQ_MODULE_NOTHING
#define MODULE_ALIAS(text) CMWQ_MODULE_NOTHING
#define MODULE_IMPORT_NS(space) CMWQ_MODULE_NOTHING
#define MODULE_SOFTDEP(text) CMWQ_MODULE_NOTHING
#define MODULE_INFO(tag, text) CMWQ_MODULE_NOTHING
#define MODULE_FIRMWARE(text) CMWQ_MODULE_NOTHING
#define MODULE_WEAKDEP(text) CMWQ_MODULE_NOTHING
#define MODULE_DEVICE_TABLE(type, table) CMWQ_MODULE_NOTHING
#define EXPORT_PER_CPU_SYMBOL(name) CMWQ_MODULE_NOTHING
#define EXPORT_PER_CPU_SYMBOL_GPL(name) CMWQ_MODULE_NOTHING

#endif
#endif

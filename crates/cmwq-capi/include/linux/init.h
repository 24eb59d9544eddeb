/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: marks that mean nothing here. A program that brings its own defines CMWQ_NO_MODULE.
 */
#ifndef CMWQ_LINUX_INIT_H
#define CMWQ_LINUX_INIT_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_MODULE
#if defined(__has_include_next)
#if __has_include_next(<linux/init.h>)
#include_next <linux/init.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_MODULE

#ifndef __init
#define __init
#endif
#ifndef __exit
#define __exit
#endif
#ifndef __initdata
#define __initdata
#endif

#endif
#endif

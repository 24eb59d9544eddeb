/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Kernel-shaped, for user space; part of cmwq. A program that brings its own defines CMWQ_NO_CONTAINER_OF. */
#ifndef CMWQ_LINUX_CONTAINER_OF_H
#define CMWQ_LINUX_CONTAINER_OF_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CONTAINER_OF
#if defined(__has_include_next)
#if __has_include_next(<linux/container_of.h>)
#include_next <linux/container_of.h>
#endif
#endif
#endif

#include <stddef.h>

#if !defined(container_of) && !defined(CMWQ_NO_CONTAINER_OF)
#ifdef __cplusplus
#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))
#else
/* A pointer to something else than the member is warned of. */
#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(1 ? (ptr) : &((type *)0)->member) - offsetof(type, member)))
#endif
#endif

/* As const as the pointer. */
#if !defined(container_of_const) && !defined(CMWQ_NO_CONTAINER_OF)
#ifdef __cplusplus
#define container_of_const(ptr, type, member) container_of(ptr, type, member)
#else
#define container_of_const(ptr, type, member)                                           \
	_Generic(ptr, const __typeof__(((type *)0)->member) *: (const type *)container_of(ptr, type, member), \
		default: container_of(ptr, type, member))
#endif
#endif

#if !defined(offsetofend) && !defined(CMWQ_NO_CONTAINER_OF)
#define offsetofend(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#endif

#endif

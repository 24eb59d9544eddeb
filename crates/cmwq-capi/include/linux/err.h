/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: error numbers in
 * pointers. A program that brings its own defines CMWQ_NO_ERR.
 */
#ifndef CMWQ_LINUX_ERR_H
#define CMWQ_LINUX_ERR_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_ERR
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/err.h"
#include <linux/cmwq_next.h>
#endif

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef CMWQ_NO_ERR
#ifndef MAX_ERRNO
#define MAX_ERRNO 4095
#endif

static inline void *ERR_PTR(long error)
{
	return (void *)(intptr_t)error;
}

static inline long PTR_ERR(const void *ptr)
{
	return (long)(intptr_t)ptr;
}

static inline bool IS_ERR(const void *ptr)
{
	return (uintptr_t)ptr >= (uintptr_t)-MAX_ERRNO;
}

static inline bool IS_ERR_OR_NULL(const void *ptr)
{
	return !ptr || IS_ERR(ptr);
}

static inline int PTR_ERR_OR_ZERO(const void *ptr)
{
	return IS_ERR(ptr) ? (int)PTR_ERR(ptr) : 0;
}

static inline void *ERR_CAST(const void *ptr)
{
	return (void *)(uintptr_t)ptr;
}

#define IS_ERR_VALUE(value) ((uintptr_t)(value) >= (uintptr_t)-MAX_ERRNO)
#endif

#endif

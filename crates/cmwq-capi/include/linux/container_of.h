/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space. A program that brings
 * its own defines CMWQ_NO_CONTAINER_OF.
 */
#ifndef CMWQ_LINUX_CONTAINER_OF_H
#define CMWQ_LINUX_CONTAINER_OF_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CONTAINER_OF
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/container_of.h"
#include <linux/cmwq_next.h>
#endif

#include <stddef.h>

/* A pointer to another type than the member's is an error. */
#if !defined(container_of) && !defined(CMWQ_NO_CONTAINER_OF)
#define container_of(ptr, type, member) CMWQ_CONTAINER_OF(ptr, type, member)
#endif

/* As const as the pointer. */
#if !defined(container_of_const) && !defined(CMWQ_NO_CONTAINER_OF)
#ifdef __cplusplus
extern "C++" {
template <typename CmwqPointer, typename CmwqType> struct cmwq_as_const_as {
	typedef CmwqType type;
};
template <typename CmwqPointed, typename CmwqType>
struct cmwq_as_const_as<const CmwqPointed *, CmwqType> {
	typedef const CmwqType type;
};
template <typename CmwqPointed, typename CmwqType>
struct cmwq_as_const_as<const CmwqPointed *const, CmwqType> {
	typedef const CmwqType type;
};
template <typename CmwqPointer, typename CmwqType>
using cmwq_const_of = typename cmwq_as_const_as<CmwqPointer, CmwqType>::type;
}
#define container_of_const(ptr, type, member) \
	static_cast<cmwq_const_of<__typeof__(ptr), type> *>(container_of(ptr, type, member))
#else
#define container_of_const(ptr, type, member)                         \
	_Generic(ptr,                                                 \
		const __typeof__(((type *)0)->member) *: (            \
			const type *)container_of(ptr, type, member), \
		default: container_of(ptr, type, member))
#endif
#endif

#if !defined(offsetofend) && !defined(CMWQ_NO_CONTAINER_OF)
#define offsetofend(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#endif

#endif

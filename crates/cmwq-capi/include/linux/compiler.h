/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: marks and accesses.
 * Those at the end have names that system headers may use otherwise: they are in this header only.
 * A program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_COMPILER_H
#define CMWQ_LINUX_COMPILER_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/compiler.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <linux/cache.h>
#include <linux/cmwq_compiler.h>
#include <linux/cmwq_barrier.h>

#ifndef __packed
#define __packed __attribute__((__packed__))
#endif
#ifndef __aligned
#define __aligned(to) __attribute__((__aligned__(to)))
#endif
#ifndef __printf
#define __printf(format, first) __attribute__((__format__(__printf__, format, first)))
#endif
#ifndef __cold
#define __cold __attribute__((__cold__))
#endif
#ifndef __always_unused
#define __always_unused __attribute__((__unused__))
#endif
#ifdef __cplusplus
static inline void barrier(void)
{
	__asm__ __volatile__("" ::: "memory");
}
#endif
#ifndef __sched
#define __sched
#endif
#ifndef __ro_after_init
#define __ro_after_init
#endif
#ifndef __init_or_module
#define __init_or_module
#endif
#ifndef __visible
#define __visible
#endif
#ifndef __counted_by
#define __counted_by(member)
#endif
#ifndef __noreturn
#define __noreturn __attribute__((__noreturn__))
#endif
#ifndef notrace
#define notrace __attribute__((__no_instrument_function__))
#endif
#ifndef asmlinkage
#define asmlinkage
#endif
#ifndef noinline_for_stack
#define noinline_for_stack __attribute__((__noinline__))
#endif
#ifndef __pure
#define __pure __attribute__((__pure__))
#endif
#ifndef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#endif
#ifndef __deprecated
#define __deprecated
#endif
#ifndef __attribute_const__
#define __attribute_const__ __attribute__((__const__))
#endif
#ifndef __malloc
#define __malloc __attribute__((__malloc__))
#endif
#ifndef __scanf
#define __scanf(format, first) __attribute__((__format__(__scanf__, format, first)))
#endif
#ifndef __counted_by_le
#define __counted_by_le(member)
#define __counted_by_be(member)
#endif
#ifndef __nonstring
#define __nonstring
#endif
#ifndef __private
#define __private
#define ACCESS_PRIVATE(ptr, member) ((ptr)->member)
#endif
#ifndef __bitwise
#define __bitwise
#endif
#ifndef __kernel
#define __kernel
#endif
#ifndef __nocast
#define __nocast
#endif
#ifndef __cond_acquires
#define __cond_acquires(...)
#endif
#ifndef unreachable
#define unreachable() __builtin_unreachable()
#endif
#ifndef OPTIMIZER_HIDE_VAR
#define OPTIMIZER_HIDE_VAR(var) __asm__ __volatile__("" : "+r"(var))
#endif
#ifndef ASSERT_EXCLUSIVE_WRITER
#define ASSERT_EXCLUSIVE_WRITER(var) ((void)sizeof(var))
#define ASSERT_EXCLUSIVE_ACCESS(var) ((void)sizeof(var))
#endif
#ifndef _RET_IP_
#define _RET_IP_ ((unsigned long)__builtin_return_address(0))
#endif
#ifndef __PASTE
#define __PASTE(a, b) CMWQ_JOIN(a, b)
#endif
#ifndef __UNIQUE_ID
#define __UNIQUE_ID(prefix) __PASTE(__PASTE(cmwq_unique_##prefix, _), __COUNTER__)
#endif
#ifndef __used
#define __used __attribute__((__used__))
#endif
#ifndef __weak
#define __weak __attribute__((__weak__))
#endif
#ifndef __section
#define __section(name) __attribute__((__section__(name)))
#endif
#ifndef ____cacheline_internodealigned_in_smp
#define ____cacheline_internodealigned_in_smp ____cacheline_aligned
#endif
#ifndef __cplusplus
#ifndef noinline
#define noinline __attribute__((__noinline__))
#endif
#ifndef fallthrough
#define fallthrough __attribute__((__fallthrough__))
#endif
#endif

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: marks and accesses that any header may need. Each steps
 * aside for one that is defined already; all do with CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_CMWQ_COMPILER_H
#define CMWQ_LINUX_CMWQ_COMPILER_H

#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>

#ifndef CMWQ_NO_KERNEL_MACROS

#if defined(__SANITIZE_THREAD__)
#define CMWQ_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CMWQ_THREAD_SANITIZER
#endif
#endif

/* For ThreadSanitizer, which knows nothing of volatile accesses, they are relaxed atomic ones. */
#ifdef CMWQ_THREAD_SANITIZER
#ifndef READ_ONCE
#define READ_ONCE(x)                                                                     \
	__extension__({                                                                  \
		union {                                                                  \
			__typeof__(x) cmwq_value;                                        \
			char cmwq_bytes[sizeof(x)];                                      \
		} cmwq_read;                                                             \
		cmwq_read_once((const volatile void *)&(x), cmwq_read.cmwq_bytes, sizeof(x)); \
		cmwq_read.cmwq_value;                                                    \
	})
static inline void cmwq_read_once(const volatile void *from, void *to, unsigned long size)
{
	switch (size) {
	case 1:
		*(unsigned char *)to = __atomic_load_n((const volatile unsigned char *)from, __ATOMIC_RELAXED);
		break;
	case 2:
		*(unsigned short *)to = __atomic_load_n((const volatile unsigned short *)from, __ATOMIC_RELAXED);
		break;
	case 4:
		*(unsigned int *)to = __atomic_load_n((const volatile unsigned int *)from, __ATOMIC_RELAXED);
		break;
	default:
		*(unsigned long *)to = __atomic_load_n((const volatile unsigned long *)from, __ATOMIC_RELAXED);
		break;
	}
}
#endif
#ifndef WRITE_ONCE
#define WRITE_ONCE(x, value) __atomic_store_n(&(x), (value), __ATOMIC_RELAXED)
#endif
#endif

#ifndef READ_ONCE
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#endif
#ifndef WRITE_ONCE
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#endif
#ifndef data_race
#define data_race(expression) (expression)
#endif
#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#endif
#ifndef unlikely
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif
/* In C++, where the standard library has a class of that name, it is a function of <linux/compiler.h>. */
#if !defined(barrier) && !defined(__cplusplus)
#define barrier() __asm__ __volatile__("" ::: "memory")
#endif
#ifndef __maybe_unused
#define __maybe_unused __attribute__((__unused__))
#endif
#ifndef __must_check
#define __must_check __attribute__((__warn_unused_result__))
#endif
#ifndef __user
#define __user
#endif
#ifndef __rcu
#define __rcu
#endif
#ifndef __percpu
#define __percpu
#endif
#ifndef __iomem
#define __iomem
#endif
#ifndef __force
#define __force
#endif
#ifndef __acquires
#define __acquires(lock)
#endif
#ifndef __releases
#define __releases(lock)
#endif
#ifndef __must_hold
#define __must_hold(lock)
#endif
#ifndef __read_mostly
#define __read_mostly
#endif
#ifndef ____cacheline_aligned
#define ____cacheline_aligned __attribute__((__aligned__(64)))
#endif
#ifndef __cacheline_aligned
#define __cacheline_aligned ____cacheline_aligned
#endif
#ifndef ____cacheline_aligned_in_smp
#define ____cacheline_aligned_in_smp ____cacheline_aligned
#endif
#ifndef __same_type
#define __same_type(a, b) __builtin_types_compatible_p(__typeof__(a), __typeof__(b))
#endif

#endif

#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: marks and accesses that
 * any header may need. Each steps aside for one that is defined already; all do with
 * CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_CMWQ_COMPILER_H
#define CMWQ_LINUX_CMWQ_COMPILER_H

#include <linux/cmwq_base.h>

#ifndef CMWQ_NO_KERNEL_MACROS

/* For ThreadSanitizer, which knows nothing of volatile accesses, they are relaxed atomic ones. */
#ifdef CMWQ_TSAN
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
		*(unsigned char *)to = __atomic_load_n((const volatile unsigned char *)from,
			__ATOMIC_RELAXED);
		break;
	case 2:
		*(unsigned short *)to = __atomic_load_n((const volatile unsigned short *)from,
			__ATOMIC_RELAXED);
		break;
	case 4:
		*(unsigned int *)to = __atomic_load_n((const volatile unsigned int *)from,
			__ATOMIC_RELAXED);
		break;
	default:
		*(unsigned long *)to = __atomic_load_n((const volatile unsigned long *)from,
			__ATOMIC_RELAXED);
		break;
	}
}
#endif
#ifndef WRITE_ONCE
#define WRITE_ONCE(x, value) __atomic_store_n(&(x), CMWQ_AS_ASSIGNED(x, value), __ATOMIC_RELAXED)
#endif
#endif

/*
 * Macros with arguments that may be left out, without the comma that compilers warn of: ONE or
 * MANY, by how many there are (32 at most).
 */
#define CMWQ_JOIN_NOW(a, b) a##b
#define CMWQ_JOIN(a, b) CMWQ_JOIN_NOW(a, b)
#define CMWQ_COUNT_AT(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, \
	a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, how_many, ...) \
	how_many
#define CMWQ_COUNT(...)                                                                        \
	CMWQ_COUNT_AT(__VA_ARGS__, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, \
		MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY,  \
		MANY, MANY, MANY, MANY, MANY, MANY, MANY, MANY, ONE, 0)
#define CMWQ_BY_COUNT(name, ...) CMWQ_JOIN(name, CMWQ_COUNT(__VA_ARGS__))

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
/*
 * In C++, where the standard library has a class of that name, it is a function of
 * <linux/compiler.h>.
 */
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

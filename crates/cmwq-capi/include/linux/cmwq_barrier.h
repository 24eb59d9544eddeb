/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: memory barriers, as
 * fences of C11; what stands before a barrier in the kernel's order does here.
 */
#ifndef CMWQ_LINUX_CMWQ_BARRIER_H
#define CMWQ_LINUX_CMWQ_BARRIER_H

#include <linux/cmwq_base.h>

#ifndef smp_mb
/*
 * ThreadSanitizer knows no fences. For it each fence is an access to one place, which orders the
 * fence among all others.
 */
#ifdef CMWQ_TSAN
#ifdef __cplusplus
extern "C" {
#endif
__attribute__((__weak__)) int cmwq_fences;
#ifdef __cplusplus
}
#endif
/*
 * An unordered change behind a fence may be the last access before another thread frees the memory.
 */
#define CMWQ_UNORDERED __ATOMIC_RELEASE
#define CMWQ_FENCE(order) ((void)__atomic_fetch_add(&cmwq_fences, 0, __ATOMIC_SEQ_CST))
#else
#define CMWQ_UNORDERED __ATOMIC_RELAXED
#define CMWQ_FENCE(order) __atomic_thread_fence(order)
#endif
#define smp_mb() CMWQ_FENCE(__ATOMIC_SEQ_CST)
#define smp_rmb() CMWQ_FENCE(__ATOMIC_ACQUIRE)
#define smp_wmb() CMWQ_FENCE(__ATOMIC_RELEASE)
#define mb() smp_mb()
#define rmb() smp_rmb()
#define wmb() smp_wmb()
#define dma_rmb() smp_rmb()
#define dma_wmb() smp_wmb()
#define smp_mb__before_atomic() smp_mb()
#define smp_mb__after_atomic() smp_mb()
#define smp_mb__after_spinlock() smp_mb()
#define smp_acquire__after_ctrl_dep() smp_rmb()
#define smp_load_acquire(ptr) __atomic_load_n((ptr), __ATOMIC_ACQUIRE)
#define smp_store_release(ptr, value) \
	__atomic_store_n((ptr), CMWQ_AS_ASSIGNED(*(ptr), value), __ATOMIC_RELEASE)
#define smp_store_mb(var, value)                                                             \
	do {                                                                                 \
		__atomic_store_n(&(var), CMWQ_AS_ASSIGNED(var, value), __ATOMIC_SEQ_CST); \
		smp_mb();                                                                    \
	} while (0)
#endif

#ifndef cpu_relax
#if defined(__x86_64__)
#define cpu_relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define cpu_relax() __asm__ __volatile__("yield" ::: "memory")
#else
#define cpu_relax() __asm__ __volatile__("" ::: "memory")
#endif
#endif

/*
 * Behind a read-modify-write of C11, which orders less than the kernel's where it is not one locked
 * instruction.
 */
#if defined(__x86_64__)
#define CMWQ_AFTER_FULL(order) ((void)0)
#else
#define CMWQ_AFTER_FULL(order)                       \
	do {                                         \
		if ((order) == __ATOMIC_SEQ_CST)     \
			smp_mb();                    \
	} while (0)
#endif

#endif

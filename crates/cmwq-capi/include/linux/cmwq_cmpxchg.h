/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: exchanges of any integer
 * or pointer of 1, 2, 4 or 8 bytes.
 */
#ifndef CMWQ_LINUX_CMWQ_CMPXCHG_H
#define CMWQ_LINUX_CMWQ_CMPXCHG_H

#include <linux/cmwq_base.h>

#include <linux/cmwq_barrier.h>

#define cmwq_xchg(ptr, value, order)                                     \
	__extension__({                                                  \
		__typeof__(*(ptr)) cmwq_was = __atomic_exchange_n((ptr), \
			(__typeof__(*(ptr)))(value), order);             \
		CMWQ_AFTER_FULL(order);                                  \
		cmwq_was;                                                \
	})
#define cmwq_cmpxchg(ptr, from, to, order)                                                        \
	__extension__({                                                                           \
		__typeof__(*(ptr)) cmwq_was = (__typeof__(*(ptr)))(from);                         \
		__atomic_compare_exchange_n((ptr), &cmwq_was, (__typeof__(*(ptr)))(to), 0, order, \
			__ATOMIC_RELAXED);                                                        \
		CMWQ_AFTER_FULL(order);                                                           \
		cmwq_was;                                                                         \
	})
/* `from` points to what is expected, and has what was there if that was not it. */
#define cmwq_try_cmpxchg(ptr, from, to, order)                                            \
	__extension__({                                                                   \
		__typeof__(1 == 1) cmwq_done = __atomic_compare_exchange_n((ptr), (from), \
			(__typeof__(*(ptr)))(to), 0, order, __ATOMIC_RELAXED);            \
		CMWQ_AFTER_FULL(order);                                                   \
		cmwq_done;                                                                \
	})

#ifndef xchg
#define xchg(ptr, value) cmwq_xchg((ptr), (value), __ATOMIC_SEQ_CST)
#define xchg_relaxed(ptr, value) cmwq_xchg((ptr), (value), __ATOMIC_RELAXED)
#define xchg_acquire(ptr, value) cmwq_xchg((ptr), (value), __ATOMIC_ACQUIRE)
#define xchg_release(ptr, value) cmwq_xchg((ptr), (value), __ATOMIC_RELEASE)
#endif
#ifndef cmpxchg
#define cmpxchg(ptr, from, to) cmwq_cmpxchg((ptr), (from), (to), __ATOMIC_SEQ_CST)
#define cmpxchg_relaxed(ptr, from, to) cmwq_cmpxchg((ptr), (from), (to), __ATOMIC_RELAXED)
#define cmpxchg_acquire(ptr, from, to) cmwq_cmpxchg((ptr), (from), (to), __ATOMIC_ACQUIRE)
#define cmpxchg_release(ptr, from, to) cmwq_cmpxchg((ptr), (from), (to), __ATOMIC_RELEASE)
#define cmpxchg_local(ptr, from, to) cmpxchg((ptr), (from), (to))
#define cmpxchg64(ptr, from, to) cmpxchg((ptr), (from), (to))
#define cmpxchg64_relaxed(ptr, from, to) cmpxchg_relaxed((ptr), (from), (to))
#define cmpxchg64_acquire(ptr, from, to) cmpxchg_acquire((ptr), (from), (to))
#define cmpxchg64_release(ptr, from, to) cmpxchg_release((ptr), (from), (to))
#define cmpxchg64_local(ptr, from, to) cmpxchg((ptr), (from), (to))
#define sync_cmpxchg(ptr, from, to) cmpxchg((ptr), (from), (to))
#define try_cmpxchg64(ptr, from, to) try_cmpxchg((ptr), (from), (to))
#define try_cmpxchg_local(ptr, from, to) try_cmpxchg((ptr), (from), (to))
#define try_cmpxchg64_local(ptr, from, to) try_cmpxchg((ptr), (from), (to))
#define try_cmpxchg(ptr, from, to) cmwq_try_cmpxchg((ptr), (from), (to), __ATOMIC_SEQ_CST)
#define try_cmpxchg_relaxed(ptr, from, to) cmwq_try_cmpxchg((ptr), (from), (to), __ATOMIC_RELAXED)
#define try_cmpxchg_acquire(ptr, from, to) cmwq_try_cmpxchg((ptr), (from), (to), __ATOMIC_ACQUIRE)
#define try_cmpxchg_release(ptr, from, to) cmwq_try_cmpxchg((ptr), (from), (to), __ATOMIC_RELEASE)
#endif

#endif

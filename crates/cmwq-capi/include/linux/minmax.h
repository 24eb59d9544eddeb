/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: the smaller, the larger,
 * what lies between. C++ has its own min and max. A program that brings its own defines
 * CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_MINMAX_H
#define CMWQ_LINUX_MINMAX_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/minmax.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#include <linux/cmwq_compiler.h>
#ifndef __cplusplus
#ifndef min
#define min(a, b)                                  \
	__extension__({                            \
		__typeof__(a) cmwq_a = (a);        \
		__typeof__(b) cmwq_b = (b);        \
		cmwq_a < cmwq_b ? cmwq_a : cmwq_b; \
	})
#endif
#ifndef max
#define max(a, b)                                  \
	__extension__({                            \
		__typeof__(a) cmwq_a = (a);        \
		__typeof__(b) cmwq_b = (b);        \
		cmwq_a > cmwq_b ? cmwq_a : cmwq_b; \
	})
#endif
#ifndef min3
#define min3(a, b, c) min(min(a, b), c)
#endif
#ifndef max3
#define max3(a, b, c) max(max(a, b), c)
#endif
#ifndef clamp
#define clamp(value, low, high) min(max(value, low), high)
#endif
#ifndef swap
#define swap(a, b)                              \
	do {                                    \
		__typeof__(a) cmwq_kept = (a);  \
		(a) = (b);                      \
		(b) = cmwq_kept;                \
	} while (0)
#endif
#endif
#ifndef min_t
#define min_t(type, a, b)                          \
	__extension__({                            \
		type cmwq_a = (type)(a);           \
		type cmwq_b = (type)(b);           \
		cmwq_a < cmwq_b ? cmwq_a : cmwq_b; \
	})
#endif
#ifndef max_t
#define max_t(type, a, b)                          \
	__extension__({                            \
		type cmwq_a = (type)(a);           \
		type cmwq_b = (type)(b);           \
		cmwq_a > cmwq_b ? cmwq_a : cmwq_b; \
	})
#endif
#ifndef clamp_t
#define clamp_t(type, value, low, high)                                      \
	__extension__({                                                      \
		type cmwq_v = (type)(value);                                 \
		type cmwq_low = (type)(low);                                 \
		type cmwq_high = (type)(high);                               \
		cmwq_v < cmwq_low ? cmwq_low : cmwq_v > cmwq_high ? cmwq_high : cmwq_v; \
	})
#endif
#ifndef umin
#define umin(a, b) min_t(unsigned long long, (a), (b))
#define umax(a, b) max_t(unsigned long long, (a), (b))
#endif
/* The smaller of those that are not 0; 0 if both are. */
#ifndef min_not_zero
#define min_not_zero(a, b)                                                                       \
	__extension__({                                                                          \
		__typeof__(a) cmwq_a = (a);                                                      \
		__typeof__(b) cmwq_b = (b);                                                      \
		!cmwq_a ? cmwq_b : !cmwq_b || cmwq_a < cmwq_b ? cmwq_a : cmwq_b;                 \
	})
#endif
#ifndef in_range
#define in_range(value, first, n) \
	((unsigned long long)(value) - (unsigned long long)(first) < (unsigned long long)(n))
#endif
#ifndef MIN
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef MAX
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#endif
#ifndef clamp_val
#define clamp_val(value, low, high) clamp_t(__typeof__(value), value, low, high)
#endif

#endif
#endif

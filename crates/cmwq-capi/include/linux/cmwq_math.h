/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: rounding, limits and the
 * like: macros of <linux/kernel.h>. Each steps aside for one that is defined already.
 */
#ifndef CMWQ_LINUX_CMWQ_MATH_H
#define CMWQ_LINUX_CMWQ_MATH_H

#include <linux/cmwq_base.h>

#include <linux/cmwq_compiler.h>
#include <stdint.h>
/* Before `abs` is a macro. */
#include <stdlib.h>

#ifndef CMWQ_NO_KERNEL_MACROS
#ifndef DIV_ROUND_CLOSEST
/* Of numbers that are not negative. */
#define DIV_ROUND_CLOSEST(n, by) (((n) + (by) / 2) / (by))
#endif
#ifndef DIV_ROUND_UP_ULL
#define DIV_ROUND_UP_ULL(n, by) (((unsigned long long)(n) + (by) - 1) / (by))
#define DIV_ROUND_DOWN_ULL(n, by) ((unsigned long long)(n) / (by))
#endif
#ifndef DIV_ROUND_CLOSEST_ULL
#define DIV_ROUND_CLOSEST_ULL(n, by) (((unsigned long long)(n) + (by) / 2) / (by))
#endif
/* Of any type; the standard's is one of int. C++ has one for each. */
#if !defined(abs) && !defined(__cplusplus)
#define abs(n)                                  \
	__extension__({                         \
		__typeof__(n) cmwq_n = (n);     \
		cmwq_n < 0 ? -cmwq_n : cmwq_n;  \
	})
#endif
#ifndef abs_diff
#define abs_diff(a, b)                                                     \
	__extension__({                                                    \
		__typeof__(a) cmwq_a = (a);                                \
		__typeof__(a) cmwq_b = (b);                                \
		cmwq_a > cmwq_b ? cmwq_a - cmwq_b : cmwq_b - cmwq_a;       \
	})
#endif
#ifndef rounddown
#define rounddown(n, to) ((n) - (n) % (to))
#endif
#ifndef ALIGN
#define ALIGN(n, to) (((n) + (__typeof__(n))(to) - 1) & ~((__typeof__(n))(to) - 1))
#endif
#ifndef ALIGN_DOWN
#define ALIGN_DOWN(n, to) ((n) & ~((__typeof__(n))(to) - 1))
#endif
#ifndef IS_ALIGNED
#define IS_ALIGNED(n, to) (((n) & ((__typeof__(n))(to) - 1)) == 0)
#endif
#ifndef PTR_ALIGN
#define PTR_ALIGN(ptr, to) ((__typeof__(ptr))ALIGN((uintptr_t)(ptr), (to)))
#endif
#ifndef mult_frac
/* n * of / by, without the large product. */
#define mult_frac(n, of, by) ((n) / (by) * (of) + (n) % (by) * (of) / (by))
#endif
#ifndef lower_32_bits
#define lower_32_bits(n) ((uint32_t)((n) & 0xffffffffu))
#define upper_32_bits(n) ((uint32_t)((uint64_t)(n) >> 32))
#endif
#ifndef U8_MAX
#define U8_MAX UINT8_MAX
#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define S8_MAX INT8_MAX
#define S16_MAX INT16_MAX
#define S32_MAX INT32_MAX
#define S64_MAX INT64_MAX
#define S8_MIN INT8_MIN
#define S16_MIN INT16_MIN
#define S32_MIN INT32_MIN
#define S64_MIN INT64_MIN
#endif
#ifndef sizeof_field
#define sizeof_field(type, member) sizeof(((type *)0)->member)
#endif
#ifndef typeof_member
#define typeof_member(type, member) __typeof__(((type *)0)->member)
#endif

/*
 * 1 if the option is defined as 1, or as a module (with _MODULE behind its name); 0 otherwise. In
 * #if as well.
 */
#ifndef IS_ENABLED
#define CMWQ_SECOND(first, second, ...) second
#define CMWQ_COMMA_1 0,
#define CMWQ_IS_ONE_OF(comma) CMWQ_SECOND(comma 1, 0, 0)
#define CMWQ_IS_ONE_AS(value) CMWQ_IS_ONE_OF(CMWQ_COMMA_##value)
#define CMWQ_IS_ONE(option) CMWQ_IS_ONE_AS(option)
#define IS_BUILTIN(option) CMWQ_IS_ONE(option)
#define IS_MODULE(option) CMWQ_IS_ONE(option##_MODULE)
#define IS_ENABLED(option) (IS_BUILTIN(option) || IS_MODULE(option))
#define IS_REACHABLE(option) IS_ENABLED(option)
#endif
#endif

#endif

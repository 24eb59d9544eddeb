/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: what must not be is said
 * on standard error, and BUG() ends the program. A program that brings its own defines CMWQ_NO_BUG.
 */
#ifndef CMWQ_LINUX_BUG_H
#define CMWQ_LINUX_BUG_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_BUG
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/bug.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_BUG

#include <stdio.h>
#include <stdlib.h>
#include <linux/build_bug.h>

#define BUG()                                                            \
	do {                                                             \
		fprintf(stderr, "BUG at %s:%d\n", __FILE__, __LINE__); \
		abort();                                                 \
	} while (0)
#define BUG_ON(condition)          \
	do {                       \
		if (condition)     \
			BUG();     \
	} while (0)

static inline int cmwq_warn_on(int is, const char *file, int line)
{
	if (is)
		fprintf(stderr, "WARNING at %s:%d\n", file, line);
	return is;
}

#define panic(...)                           \
	do {                                 \
		fprintf(stderr, __VA_ARGS__); \
		BUG();                       \
	} while (0)
#define WARN_ON(condition) cmwq_warn_on(!!(condition), __FILE__, __LINE__)
#define WARN(condition, ...)                                               \
	__extension__({                                                    \
		int cmwq_is = !!(condition);                               \
		if (cmwq_is) {                                             \
			cmwq_warn_on(1, __FILE__, __LINE__);               \
			fprintf(stderr, __VA_ARGS__);                      \
		}                                                          \
		cmwq_is;                                                   \
	})
#define WARN_ONCE(condition, ...)                                          \
	__extension__({                                                    \
		static char cmwq_said;                                     \
		int cmwq_is_so = !!(condition);                            \
		if (cmwq_is_so && !__atomic_test_and_set(&cmwq_said, __ATOMIC_RELAXED)) \
			(void)WARN(1, __VA_ARGS__);                              \
		cmwq_is_so;                                                \
	})
#define WARN_ON_ONCE(condition)                                            \
	__extension__({                                                    \
		static char cmwq_said;                                     \
		int cmwq_is = !!(condition);                               \
		if (cmwq_is && !__atomic_test_and_set(&cmwq_said, __ATOMIC_RELAXED)) \
			cmwq_warn_on(1, __FILE__, __LINE__);               \
		cmwq_is;                                                   \
	})

#endif
#endif

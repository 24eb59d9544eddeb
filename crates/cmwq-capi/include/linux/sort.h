/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: sorting in place, in n
 * log n at worst, without memory; equal elements may change places. A program that brings its own
 * defines CMWQ_NO_SORT.
 */
#ifndef CMWQ_LINUX_SORT_H
#define CMWQ_LINUX_SORT_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_SORT
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/sort.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_SORT

#include <stddef.h>

typedef int (*cmp_func_t)(const void *a, const void *b);
typedef int (*cmp_r_func_t)(const void *a, const void *b, const void *with);
typedef void (*swap_func_t)(void *a, void *b, int size);
typedef void (*swap_r_func_t)(void *a, void *b, int size, const void *with);

static inline void cmwq_sort_swap(char *a, char *b, size_t size, swap_r_func_t swap_func,
	const void *with)
{
	if (swap_func) {
		swap_func(a, b, (int)size, with);
		return;
	}
	for (; size; size--, a++, b++) {
		char kept = *a;

		*a = *b;
		*b = kept;
	}
}

/* Lets the element at `root` sink in the heap of the first `n`. */
static inline void cmwq_sort_sink(char *base, size_t root, size_t n, size_t size, cmp_r_func_t cmp,
	swap_r_func_t swap_func, const void *with)
{
	for (;;) {
		size_t child = 2 * root + 1;

		if (child >= n)
			return;
		if (child + 1 < n && cmp(base + child * size, base + (child + 1) * size, with) < 0)
			child++;
		if (cmp(base + root * size, base + child * size, with) >= 0)
			return;
		cmwq_sort_swap(base + root * size, base + child * size, size, swap_func, with);
		root = child;
	}
}

static inline void sort_r(void *base, size_t n, size_t size, cmp_r_func_t cmp,
	swap_r_func_t swap_func, const void *with)
{
	char *bytes = (char *)base;
	size_t i;

	for (i = n / 2; i-- > 0;)
		cmwq_sort_sink(bytes, i, n, size, cmp, swap_func, with);
	for (i = n; i-- > 1;) {
		cmwq_sort_swap(bytes, bytes + i * size, size, swap_func, with);
		cmwq_sort_sink(bytes, 0, i, size, cmp, swap_func, with);
	}
}

struct cmwq_sort_plain {
	cmp_func_t cmp;
	swap_func_t swap_func;
};

static inline int cmwq_sort_cmp(const void *a, const void *b, const void *with)
{
	return ((const struct cmwq_sort_plain *)with)->cmp(a, b);
}

static inline void cmwq_sort_swap_plain(void *a, void *b, int size, const void *with)
{
	((const struct cmwq_sort_plain *)with)->swap_func(a, b, size);
}

/* `swap_func` NULL: bytes are exchanged. */
static inline void sort(void *base, size_t n, size_t size, cmp_func_t cmp, swap_func_t swap_func)
{
	struct cmwq_sort_plain plain;

	plain.cmp = cmp;
	plain.swap_func = swap_func;
	sort_r(base, n, size, cmwq_sort_cmp, swap_func ? cmwq_sort_swap_plain : NULL, &plain);
}

#define sort_nonatomic(base, count, size, compare, swap) \
	sort((base), (count), (size), (compare), (swap))
#define sort_r_nonatomic(base, count, size, compare, swap, arg) \
	sort_r((base), (count), (size), (compare), (swap), (arg))

#endif
#endif

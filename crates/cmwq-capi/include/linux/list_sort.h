/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: sorting a list. Stable:
 * equal entries keep their order. A program that brings its own defines CMWQ_NO_SORT or
 * CMWQ_NO_LIST.
 */
#ifndef CMWQ_LINUX_LIST_SORT_H
#define CMWQ_LINUX_LIST_SORT_H

#include <linux/cmwq_base.h>
#if defined(CMWQ_NO_SORT) || defined(CMWQ_NO_LIST)
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/list_sort.h"
#include <linux/cmwq_next.h>
#else

#include <linux/list.h>

/* More than 0: `b` goes before `a`. */
typedef int (*list_cmp_func_t)(void *priv, const struct list_head *a, const struct list_head *b);

/* Takes two sorted chains that end with NULL; equal entries of the first come first. */
static inline struct list_head *cmwq_list_merge(void *priv, list_cmp_func_t cmp,
	struct list_head *a, struct list_head *b)
{
	struct list_head *first = NULL, **end = &first;

	while (a && b) {
		struct list_head **from = cmp(priv, a, b) > 0 ? &b : &a;

		*end = *from;
		end = &(*from)->next;
		*from = (*from)->next;
	}
	*end = a ? a : b;
	return first;
}

static inline void list_sort(void *priv, struct list_head *head, list_cmp_func_t cmp)
{
	/* Chain i has 2^i entries, or none; later entries are in chains of lower numbers. */
	struct list_head *chains[64], *at, *next, *sorted = NULL;
	int i, used = 0;

	if (list_empty(head))
		return;
	head->prev->next = NULL;
	for (at = head->next; at; at = next) {
		struct list_head *carry = at;

		next = at->next;
		at->next = NULL;
		for (i = 0; i < used && chains[i]; i++) {
			carry = cmwq_list_merge(priv, cmp, chains[i], carry);
			chains[i] = NULL;
		}
		if (i == used)
			used++;
		chains[i] = carry;
	}
	for (i = 0; i < used; i++)
		if (chains[i])
			sorted = cmwq_list_merge(priv, cmp, chains[i], sorted);
	INIT_LIST_HEAD(head);
	for (at = sorted; at; at = next) {
		next = at->next;
		list_add_tail(at, head);
	}
}

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: lists without a lock:
 * any thread adds at the head; all are taken at once, or the first by one thread at a time. A
 * program that brings its own defines CMWQ_NO_LLIST.
 */
#ifndef CMWQ_LINUX_LLIST_H
#define CMWQ_LINUX_LLIST_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_LLIST
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/llist.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_LLIST

#include <linux/cmwq_cmpxchg.h>
#include <linux/container_of.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

#define LLIST_HEAD_INIT(name) {NULL}
#define LLIST_HEAD(name) struct llist_head name = LLIST_HEAD_INIT(name)

static inline void init_llist_head(struct llist_head *list)
{
	list->first = NULL;
}

static inline void init_llist_node(struct llist_node *node)
{
	node->next = node;
}

static inline bool llist_on_list(const struct llist_node *node)
{
	return node->next != node;
}

static inline bool llist_empty(const struct llist_head *list)
{
	return __atomic_load_n(&list->first, __ATOMIC_RELAXED) == NULL;
}

static inline struct llist_node *llist_next(struct llist_node *node)
{
	return node->next;
}

/* Adds a chain. true: the list was empty. */
static inline bool llist_add_batch(struct llist_node *first, struct llist_node *last,
	struct llist_head *list)
{
	struct llist_node *was = __atomic_load_n(&list->first, __ATOMIC_RELAXED);

	do {
		last->next = was;
	} while (!__atomic_compare_exchange_n(&list->first, &was, first, 0, __ATOMIC_SEQ_CST,
		__ATOMIC_RELAXED));
	return was == NULL;
}

#define __llist_add_batch(first, last, list) llist_add_batch((first), (last), (list))

static inline bool llist_add(struct llist_node *node, struct llist_head *list)
{
	return llist_add_batch(node, node, list);
}

static inline struct llist_node *llist_del_all(struct llist_head *list)
{
	return __atomic_exchange_n(&list->first, (struct llist_node *)NULL, __ATOMIC_SEQ_CST);
}

/* Only one thread at a time may call this, and none may call llist_del_all() meanwhile. */
static inline struct llist_node *llist_del_first(struct llist_head *list)
{
	struct llist_node *first = __atomic_load_n(&list->first, __ATOMIC_ACQUIRE);

	while (first &&
		!__atomic_compare_exchange_n(&list->first, &first, first->next, 0, __ATOMIC_SEQ_CST,
			__ATOMIC_ACQUIRE))
		;
	return first;
}

static inline struct llist_node *llist_reverse_order(struct llist_node *node)
{
	struct llist_node *reversed = NULL;

	while (node) {
		struct llist_node *next = node->next;

		node->next = reversed;
		reversed = node;
		node = next;
	}
	return reversed;
}

#define llist_entry(ptr, type, member) container_of(ptr, type, member)
#define cmwq_llist_is(pos, member) ((uintptr_t)(pos) + offsetof(__typeof__(*(pos)), member) != 0)
#define cmwq_llist_at(node, pos, member)               \
	((__typeof__(pos))(void *)((uintptr_t)(node) - \
		CMWQ_MEMBER_OFFSET(node, __typeof__(*(pos)), member)))
#define llist_for_each(pos, node) for ((pos) = (node); (pos); (pos) = (pos)->next)
#define llist_for_each_safe(pos, n, node) \
	for ((pos) = (node); (pos) && ((n) = (pos)->next, 1); (pos) = (n))
#define llist_for_each_entry(pos, node, member)                                    \
	for ((pos) = cmwq_llist_at((node), pos, member); cmwq_llist_is(pos, member); \
	     (pos) = cmwq_llist_at((pos)->member.next, pos, member))
#define llist_for_each_entry_safe(pos, n, node, member)                                \
	for ((pos) = cmwq_llist_at((node), pos, member); cmwq_llist_is(pos, member) && \
		((n) = cmwq_llist_at((pos)->member.next, pos, member), 1);             \
		(pos) = (n))

/* The caller has the list for itself. */
static inline bool __llist_add(struct llist_node *node, struct llist_head *list)
{
	node->next = list->first;
	list->first = node;
	return node->next == NULL;
}

static inline struct llist_node *__llist_del_all(struct llist_head *list)
{
	struct llist_node *first = list->first;

	list->first = NULL;
	return first;
}

/* The node is on no list afterwards: see llist_on_list(). */
static inline struct llist_node *llist_del_first_init(struct llist_head *list)
{
	struct llist_node *first = llist_del_first(list);

	if (first)
		init_llist_node(first);
	return first;
}

/* Takes `node` if it is the first. */
static inline bool llist_del_first_this(struct llist_head *list, struct llist_node *node)
{
	struct llist_node *first = node;

	return __atomic_compare_exchange_n(&list->first, &first, node->next, 0, __ATOMIC_SEQ_CST,
		__ATOMIC_ACQUIRE);
}

#endif
#endif

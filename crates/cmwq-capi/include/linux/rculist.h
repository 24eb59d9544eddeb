/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: lists that are read in
 * RCU sections while one thread at a time changes them. A program that brings its own defines
 * CMWQ_NO_RCUPDATE or CMWQ_NO_LIST.
 */
#ifndef CMWQ_LINUX_RCULIST_H
#define CMWQ_LINUX_RCULIST_H

#include <linux/cmwq_base.h>
#if defined(CMWQ_NO_RCUPDATE) || defined(CMWQ_NO_LIST)
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/rculist.h"
#include <linux/cmwq_next.h>
#else

#include <linux/list.h>
#include <linux/rcupdate.h>

static inline void cmwq_list_link_rcu(struct list_head *entry, struct list_head *before,
	struct list_head *after)
{
	entry->next = after;
	entry->prev = before;
	/* Readers that find the entry find it complete. */
	rcu_assign_pointer(before->next, entry);
	after->prev = entry;
}

static inline void INIT_LIST_HEAD_RCU(struct list_head *head)
{
	WRITE_ONCE(head->next, head);
	WRITE_ONCE(head->prev, head);
}

static inline void list_add_rcu(struct list_head *entry, struct list_head *head)
{
	cmwq_list_link_rcu(entry, head, head->next);
}

static inline void list_add_tail_rcu(struct list_head *entry, struct list_head *head)
{
	cmwq_list_link_rcu(entry, head->prev, head);
}

/* Readers that are at the entry go on from it: it is freed after a grace period. */
static inline void list_del_rcu(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	WRITE_ONCE(entry->prev->next, entry->next);
	entry->prev = NULL;
}

static inline void list_replace_rcu(struct list_head *old, struct list_head *entry)
{
	entry->next = old->next;
	entry->prev = old->prev;
	rcu_assign_pointer(entry->prev->next, entry);
	entry->next->prev = entry;
	old->prev = NULL;
}

#define list_next_rcu(list) (*(struct list_head **)(&(list)->next))
#define list_entry_rcu(ptr, type, member) list_entry(rcu_dereference(ptr), type, member)
#define list_first_or_null_rcu(head, type, member)                                         \
	__extension__({                                                                    \
		struct list_head *cmwq_head = (head);                                      \
		struct list_head *cmwq_first = rcu_dereference(cmwq_head->next);           \
		cmwq_first != cmwq_head ? list_entry(cmwq_first, type, member) : (type *)NULL; \
	})
/* What may follow the member is a condition for the checker that is not here. */
#define list_for_each_entry_rcu(at, head, ...) CMWQ_EACH_RCU(at, head, __VA_ARGS__, 0)
#define CMWQ_EACH_RCU(at, head, member, ...)                                 \
	for ((at) = list_entry_rcu((head)->next, __typeof__(*(at)), member); \
		&(at)->member != (head);                                     \
		(at) = list_entry_rcu((at)->member.next, __typeof__(*(at)), member))
#define list_for_each_entry_continue_rcu(at, head, member)                        \
	for ((at) = list_entry_rcu((at)->member.next, __typeof__(*(at)), member); \
		&(at)->member != (head);                                          \
		(at) = list_entry_rcu((at)->member.next, __typeof__(*(at)), member))

static inline void hlist_add_head_rcu(struct hlist_node *node, struct hlist_head *head)
{
	struct hlist_node *first = head->first;

	node->next = first;
	node->pprev = &head->first;
	rcu_assign_pointer(head->first, node);
	if (first)
		first->pprev = &node->next;
}

static inline void hlist_del_rcu(struct hlist_node *node)
{
	WRITE_ONCE(*node->pprev, node->next);
	if (node->next)
		node->next->pprev = node->pprev;
	node->pprev = NULL;
}

static inline void hlist_del_init_rcu(struct hlist_node *node)
{
	if (!hlist_unhashed(node))
		hlist_del_rcu(node);
}

#define hlist_first_rcu(head) (*(struct hlist_node **)(&(head)->first))
#define hlist_next_rcu(node) (*(struct hlist_node **)(&(node)->next))
#define hlist_for_each_entry_rcu(at, head, ...) CMWQ_HLIST_EACH_RCU(at, head, __VA_ARGS__, 0)
#define CMWQ_HLIST_EACH_RCU(at, head, member, ...)                                                 \
	for ((at) = hlist_entry_safe(rcu_dereference((head)->first), __typeof__(*(at)), member);   \
		at; (at) = hlist_entry_safe(rcu_dereference((at)->member.next), __typeof__(*(at)), \
			    member))

static inline void hlist_add_tail_rcu(struct hlist_node *node, struct hlist_head *head)
{
	struct hlist_node **at = &head->first;

	while (*at)
		at = &(*at)->next;
	node->next = NULL;
	node->pprev = at;
	rcu_assign_pointer(*at, node);
}

static inline void hlist_replace_rcu(struct hlist_node *old, struct hlist_node *node)
{
	node->next = old->next;
	node->pprev = old->pprev;
	rcu_assign_pointer(*node->pprev, node);
	if (node->next)
		node->next->pprev = &node->next;
	old->pprev = NULL;
}

#define list_next_or_null_rcu(head, ptr, type, member)                                       \
	__extension__({                                                                      \
		struct list_head *cmwq_next = rcu_dereference((ptr)->next);                  \
		cmwq_next != (head) ? list_entry(cmwq_next, type, member) : (type *)NULL;    \
	})
#define list_for_each_entry_from_rcu(at, head, member) \
	for (; &(at)->member != (head);                \
		(at) = list_entry_rcu((at)->member.next, __typeof__(*(at)), member))
#define list_entry_lockless(ptr, type, member) list_entry_rcu(ptr, type, member)

/*
 * All of `list` becomes visible at once, at the beginning of `head`. `sync` waits for the readers
 * of `list`, which is empty then.
 */
static inline void list_splice_init_rcu(struct list_head *list, struct list_head *head,
	void (*sync)(void))
{
	struct list_head *first = list->next, *last = list->prev;

	if (list_empty(list))
		return;
	INIT_LIST_HEAD_RCU(list);
	sync();
	last->next = head->next;
	first->prev = head;
	head->next->prev = last;
	rcu_assign_pointer(head->next, first);
}

static inline void hlist_add_behind_rcu(struct hlist_node *node, struct hlist_node *before)
{
	node->next = before->next;
	node->pprev = &before->next;
	rcu_assign_pointer(before->next, node);
	if (node->next)
		node->next->pprev = &node->next;
}

static inline void hlist_add_before_rcu(struct hlist_node *node, struct hlist_node *after)
{
	node->pprev = after->pprev;
	node->next = after;
	rcu_assign_pointer(*node->pprev, node);
	after->pprev = &node->next;
}

#define list_for_each_entry_lockless(at, head, member) list_for_each_entry_rcu(at, head, member)

#define list_for_each_rcu(at, head)                                \
	for ((at) = rcu_dereference((head)->next); (at) != (head); \
		(at) = rcu_dereference((at)->next))
#define list_tail_rcu(head) (*(struct list_head **)(&(head)->prev))
#define hlist_pprev_rcu(node) (*(struct hlist_node **)((node)->pprev))
#define hlist_for_each_entry_rcu_bh(at, head, member) hlist_for_each_entry_rcu(at, head, member)
#define hlist_for_each_entry_rcu_notrace(at, head, member) \
	hlist_for_each_entry_rcu(at, head, member)
#define hlist_for_each_entry_from_rcu(at, member)                                                 \
	for (; at; (at) = hlist_entry_safe(rcu_dereference((at)->member.next), __typeof__(*(at)), \
			   member))
#define hlist_for_each_entry_continue_rcu(at, member)                                              \
	for ((at) = hlist_entry_safe(rcu_dereference((at)->member.next), __typeof__(*(at)),        \
		     member);                                                                      \
		at; (at) = hlist_entry_safe(rcu_dereference((at)->member.next), __typeof__(*(at)), \
			    member))

/* At the end of `head`; otherwise as list_splice_init_rcu(). */
static inline void list_splice_tail_init_rcu(struct list_head *list, struct list_head *head,
	void (*sync)(void))
{
	struct list_head *first = list->next, *last = list->prev, *before = head->prev;

	if (list_empty(list))
		return;
	INIT_LIST_HEAD_RCU(list);
	sync();
	last->next = head;
	first->prev = before;
	head->prev = last;
	rcu_assign_pointer(before->next, first);
}

#endif
#endif

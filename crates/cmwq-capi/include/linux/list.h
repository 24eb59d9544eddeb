/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: doubly linked lists. A program that brings its own defines CMWQ_NO_LIST.
 */
#ifndef CMWQ_LINUX_LIST_H
#define CMWQ_LINUX_LIST_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_LIST
#if defined(__has_include_next)
#if __has_include_next(<linux/list.h>)
#include_next <linux/list.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_LIST

#include <linux/container_of.h>
#include <linux/types.h>

#define LIST_HEAD_INIT(name) {&(name), &(name)}
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline void cmwq_list_link(struct list_head *before, struct list_head *after)
{
	before->next = after;
	after->prev = before;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	cmwq_list_link(entry, head->next);
	cmwq_list_link(head, entry);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	list_add(entry, head->prev);
}

static inline void list_del(struct list_head *entry)
{
	cmwq_list_link(entry->prev, entry->next);
	entry->next = NULL;
	entry->prev = NULL;
}

static inline void list_del_init(struct list_head *entry)
{
	cmwq_list_link(entry->prev, entry->next);
	INIT_LIST_HEAD(entry);
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	cmwq_list_link(entry->prev, entry->next);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	cmwq_list_link(entry->prev, entry->next);
	list_add_tail(entry, head);
}

static inline int list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline int list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

/* Puts all of `list` at the beginning of `head`; `list` is empty then. */
static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	if (list_empty(list))
		return;
	cmwq_list_link(list->prev, head->next);
	cmwq_list_link(head, list->next);
	INIT_LIST_HEAD(list);
}

/* The same, at the end. */
static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	list_splice_init(list, head->prev);
}

#define list_entry(ptr, type, member) container_of(ptr, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) (list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_next_entry(pos, member) list_entry((pos)->member.next, __typeof__(*(pos)), member)
#define list_prev_entry(pos, member) list_entry((pos)->member.prev, __typeof__(*(pos)), member)

#define list_for_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
#define list_for_each_safe(pos, n, head) \
	for ((pos) = (head)->next, (n) = (pos)->next; (pos) != (head); (pos) = (n), (n) = (pos)->next)
#define list_for_each_entry(pos, head, member)                                                             \
	for ((pos) = list_first_entry(head, __typeof__(*(pos)), member); &(pos)->member != (head); \
	     (pos) = list_next_entry(pos, member))
#define list_for_each_entry_safe(pos, n, head, member)                                                                       \
	for ((pos) = list_first_entry(head, __typeof__(*(pos)), member), (n) = list_next_entry(pos, member); \
	     &(pos)->member != (head); (pos) = (n), (n) = list_next_entry(n, member))

#endif
#endif

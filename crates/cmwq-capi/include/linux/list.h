/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: doubly linked lists. A
 * program that brings its own defines CMWQ_NO_LIST.
 */
#ifndef CMWQ_LINUX_LIST_H
#define CMWQ_LINUX_LIST_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_LIST
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/list.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_LIST

#include <linux/container_of.h>
#include <linux/types.h>

#define LIST_HEAD_INIT(name) {&(name), &(name)}
#define LIST_HEAD(name) struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	__atomic_store_n(&list->next, list, __ATOMIC_RELAXED);
	list->prev = list;
}

static inline void cmwq_list_link(struct list_head *before, struct list_head *after)
{
	/* Other threads may ask meanwhile whether the list is empty. */
	__atomic_store_n(&before->next, after, __ATOMIC_RELAXED);
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
	return __atomic_load_n(&head->next, __ATOMIC_RELAXED) == head;
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
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_next_entry(pos, member) list_entry((pos)->member.next, __typeof__(*(pos)), member)
#define list_prev_entry(pos, member) list_entry((pos)->member.prev, __typeof__(*(pos)), member)

#define list_for_each(pos, head) for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
#define list_for_each_safe(pos, n, head)                               \
	for ((pos) = (head)->next, (n) = (pos)->next; (pos) != (head); \
		(pos) = (n), (n) = (pos)->next)
#define list_for_each_entry(pos, head, member)                                                     \
	for ((pos) = list_first_entry(head, __typeof__(*(pos)), member); &(pos)->member != (head); \
		(pos) = list_next_entry(pos, member))
#define list_for_each_entry_safe(pos, n, head, member)                   \
	for ((pos) = list_first_entry(head, __typeof__(*(pos)), member), \
	    (n) = list_next_entry(pos, member);                          \
		&(pos)->member != (head); (pos) = (n), (n) = list_next_entry(n, member))

#define list_entry_is_head(pos, head, member) (&(pos)->member == (head))
#define list_last_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_last_entry(head, type, member))
#define list_prepare_entry(pos, head, member) \
	((pos) ? (pos) : list_entry((head), __typeof__(*(pos)), member))
#define list_for_each_prev(pos, head) \
	for ((pos) = (head)->prev; (pos) != (head); (pos) = (pos)->prev)
#define list_for_each_entry_reverse(pos, head, member)                                            \
	for ((pos) = list_last_entry(head, __typeof__(*(pos)), member); &(pos)->member != (head); \
	     (pos) = list_prev_entry(pos, member))
#define list_for_each_entry_from(pos, head, member) \
	for (; &(pos)->member != (head); (pos) = list_next_entry(pos, member))
#define list_for_each_entry_continue(pos, head, member)                      \
	for ((pos) = list_next_entry(pos, member); &(pos)->member != (head); \
		(pos) = list_next_entry(pos, member))
#define list_for_each_entry_continue_reverse(pos, head, member)              \
	for ((pos) = list_prev_entry(pos, member); &(pos)->member != (head); \
		(pos) = list_prev_entry(pos, member))
#define list_for_each_entry_safe_from(pos, n, head, member)                \
	for ((n) = list_next_entry(pos, member); &(pos)->member != (head); \
		(pos) = (n), (n) = list_next_entry(n, member))
#define list_for_each_entry_safe_continue(pos, n, head, member)                        \
	for ((pos) = list_next_entry(pos, member), (n) = list_next_entry(pos, member); \
		&(pos)->member != (head); (pos) = (n), (n) = list_next_entry(n, member))
#define list_for_each_entry_safe_reverse(pos, n, head, member)          \
	for ((pos) = list_last_entry(head, __typeof__(*(pos)), member), \
	    (n) = list_prev_entry(pos, member);                         \
		&(pos)->member != (head); (pos) = (n), (n) = list_prev_entry(n, member))

static inline int list_is_first(const struct list_head *entry, const struct list_head *head)
{
	return entry->prev == head;
}

static inline int list_is_last(const struct list_head *entry, const struct list_head *head)
{
	return entry->next == head;
}

static inline int list_is_head(const struct list_head *entry, const struct list_head *head)
{
	return entry == head;
}

/* For a caller beside which another thread may take the last entry out with list_del_init(). */
static inline int list_empty_careful(const struct list_head *head)
{
	struct list_head *next = __atomic_load_n(&head->next, __ATOMIC_ACQUIRE);

	return next == head && next == __atomic_load_n(&head->prev, __ATOMIC_ACQUIRE);
}

/* `now` takes the place of `old`. */
static inline void list_replace(struct list_head *old, struct list_head *now)
{
	cmwq_list_link(now, old->next);
	cmwq_list_link(old->prev, now);
}

static inline void list_replace_init(struct list_head *old, struct list_head *now)
{
	list_replace(old, now);
	INIT_LIST_HEAD(old);
}

static inline void list_swap(struct list_head *a, struct list_head *b)
{
	struct list_head *before = b->prev;

	list_del(b);
	list_replace(a, b);
	list_add(a, before == a ? b : before);
}

/* The first entry becomes the last. */
static inline void list_rotate_left(struct list_head *head)
{
	if (!list_empty(head))
		list_move_tail(head->next, head);
}

/* As list_splice_init(), but `list` is left as it was. */
static inline void list_splice(const struct list_head *list, struct list_head *head)
{
	if (list->next == list)
		return;
	cmwq_list_link(list->prev, head->next);
	cmwq_list_link(head, list->next);
}

static inline void list_splice_tail(const struct list_head *list, struct list_head *head)
{
	list_splice(list, head->prev);
}

/* Moves everything up to `entry` to `list`, which is overwritten. */
static inline void list_cut_position(struct list_head *list, struct list_head *head,
	struct list_head *entry)
{
	struct list_head *rest = entry->next;

	if (list_empty(head) || entry == head) {
		INIT_LIST_HEAD(list);
		return;
	}
	cmwq_list_link(list, head->next);
	cmwq_list_link(entry, list);
	cmwq_list_link(head, rest);
}

/* first ... last, which are neighbours of one list, move to the end of `head`. */
static inline void list_bulk_move_tail(struct list_head *head, struct list_head *first,
	struct list_head *last)
{
	cmwq_list_link(first->prev, last->next);
	cmwq_list_link(head->prev, first);
	cmwq_list_link(last, head);
}

static inline size_t list_count_nodes(struct list_head *head)
{
	struct list_head *at;
	size_t count = 0;

	list_for_each(at, head)
		count++;
	return count;
}

/* ---- lists whose head is one pointer ---- */

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

#define HLIST_HEAD_INIT {NULL}
#define HLIST_HEAD(name) struct hlist_head name = HLIST_HEAD_INIT
#define INIT_HLIST_HEAD(head) ((head)->first = NULL)

static inline void INIT_HLIST_NODE(struct hlist_node *node)
{
	node->next = NULL;
	node->pprev = NULL;
}

static inline int hlist_unhashed(const struct hlist_node *node)
{
	return !node->pprev;
}

static inline int hlist_empty(const struct hlist_head *head)
{
	return !head->first;
}

/* Puts the node where `at` points to. */
static inline void cmwq_hlist_link(struct hlist_node *node, struct hlist_node **at)
{
	node->next = *at;
	if (node->next)
		node->next->pprev = &node->next;
	node->pprev = at;
	*at = node;
}

static inline void hlist_add_head(struct hlist_node *node, struct hlist_head *head)
{
	cmwq_hlist_link(node, &head->first);
}

static inline void hlist_add_before(struct hlist_node *node, struct hlist_node *next)
{
	cmwq_hlist_link(node, next->pprev);
}

static inline void hlist_add_behind(struct hlist_node *node, struct hlist_node *before)
{
	cmwq_hlist_link(node, &before->next);
}

static inline void hlist_del_init(struct hlist_node *node)
{
	if (hlist_unhashed(node))
		return;
	*node->pprev = node->next;
	if (node->next)
		node->next->pprev = node->pprev;
	INIT_HLIST_NODE(node);
}

static inline void hlist_del(struct hlist_node *node)
{
	hlist_del_init(node);
}

static inline void hlist_move_list(struct hlist_head *from, struct hlist_head *to)
{
	to->first = from->first;
	if (to->first)
		to->first->pprev = &to->first;
	from->first = NULL;
}

#define hlist_entry(ptr, type, member) container_of(ptr, type, member)
#define hlist_entry_safe(ptr, type, member)                                             \
	__extension__({                                                                 \
		struct hlist_node *cmwq_node = (ptr);                                   \
		cmwq_node ? hlist_entry(cmwq_node, type, member) : (type *)NULL;        \
	})
#define hlist_for_each(pos, head) for ((pos) = (head)->first; (pos); (pos) = (pos)->next)
#define hlist_for_each_safe(pos, n, head) \
	for ((pos) = (head)->first; (pos) && ((n) = (pos)->next, 1); (pos) = (n))
#define hlist_for_each_entry(pos, head, member)                                           \
	for ((pos) = hlist_entry_safe((head)->first, __typeof__(*(pos)), member); (pos); \
	     (pos) = hlist_entry_safe((pos)->member.next, __typeof__(*(pos)), member))
#define hlist_for_each_entry_safe(pos, n, head, member)                           \
	for ((pos) = hlist_entry_safe((head)->first, __typeof__(*(pos)), member); \
		(pos) && ((n) = (pos)->member.next, 1);                           \
		(pos) = hlist_entry_safe((n), __typeof__(*(pos)), member))

/* Moves everything before `entry` to `list`, which is overwritten. */
static inline void list_cut_before(struct list_head *list, struct list_head *head,
	struct list_head *entry)
{
	if (entry == head->next)
		INIT_LIST_HEAD(list);
	else
		list_cut_position(list, head, entry->prev);
}

/* Takes the node out of its list; the node's own links stay as they were. */
static inline void __list_del_entry(struct list_head *entry)
{
	cmwq_list_link(entry->prev, entry->next);
}

/*
 * A thread that asks the entry itself with list_empty_careful() sees what this thread did before.
 */
static inline void list_del_init_careful(struct list_head *entry)
{
	__list_del_entry(entry);
	__atomic_store_n(&entry->prev, entry, __ATOMIC_RELAXED);
	__atomic_store_n(&entry->next, entry, __ATOMIC_RELEASE);
}

/* `entry` becomes the first of its list. */
static inline void list_rotate_to_front(struct list_head *entry, struct list_head *head)
{
	list_move_tail(head, entry);
}

#define list_next_entry_circular(pos, head, member)                                              \
	(list_is_last(&(pos)->member, head) ? list_first_entry(head, __typeof__(*(pos)), member) \
					    : list_next_entry(pos, member))
#define list_prev_entry_circular(pos, head, member)                                              \
	(list_is_first(&(pos)->member, head) ? list_last_entry(head, __typeof__(*(pos)), member) \
					     : list_prev_entry(pos, member))
#define list_for_each_continue(pos, head) \
	for ((pos) = (pos)->next; (pos) != (head); (pos) = (pos)->next)
#define list_for_each_prev_safe(pos, n, head)                          \
	for ((pos) = (head)->prev, (n) = (pos)->prev; (pos) != (head); \
		(pos) = (n), (n) = (pos)->prev)
#define list_for_each_entry_from_reverse(pos, head, member) \
	for (; &(pos)->member != (head); (pos) = list_prev_entry(pos, member))
#define list_safe_reset_next(pos, n, member) ((n) = list_next_entry(pos, member))

static inline int hlist_unhashed_lockless(const struct hlist_node *node)
{
	return !__atomic_load_n(&node->pprev, __ATOMIC_RELAXED);
}

/* A node that looks as if it were in a list, and may be deleted. */
static inline void hlist_add_fake(struct hlist_node *node)
{
	node->pprev = &node->next;
}

static inline bool hlist_fake(struct hlist_node *node)
{
	return node->pprev == &node->next;
}

static inline bool hlist_is_singular_node(struct hlist_node *node, struct hlist_head *head)
{
	return !node->next && node->pprev == &head->first;
}

/* Moves all of `from`, whose last node is `last`, to the beginning of `to`. */
static inline void hlist_splice_init(struct hlist_head *from, struct hlist_node *last,
	struct hlist_head *to)
{
	last->next = to->first;
	if (last->next)
		last->next->pprev = &last->next;
	to->first = from->first;
	to->first->pprev = &to->first;
	from->first = NULL;
}

#define hlist_for_each_entry_continue(pos, member)                                            \
	for ((pos) = hlist_entry_safe((pos)->member.next, __typeof__(*(pos)), member); (pos); \
		(pos) = hlist_entry_safe((pos)->member.next, __typeof__(*(pos)), member))
#define hlist_for_each_entry_from(pos, member) \
	for (; (pos); (pos) = hlist_entry_safe((pos)->member.next, __typeof__(*(pos)), member))

static inline size_t hlist_count_nodes(struct hlist_head *head)
{
	struct hlist_node *at;
	size_t count = 0;

	hlist_for_each(at, head)
		count++;
	return count;
}

/* Puts the entry between two neighbours. */
static inline void __list_add(struct list_head *entry, struct list_head *before,
	struct list_head *after)
{
	cmwq_list_link(entry, after);
	cmwq_list_link(before, entry);
}

static inline void __list_del(struct list_head *before, struct list_head *after)
{
	cmwq_list_link(before, after);
}

#define list_for_each_reverse(at, head) list_for_each_prev(at, head)
/* What the links of deleted entries are. */
#define LIST_POISON1 NULL
#define LIST_POISON2 NULL

#endif
#endif

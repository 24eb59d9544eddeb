/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: tables of a fixed size
 * with a list of entries in each place. A program that brings its own defines CMWQ_NO_LIST.
 */
#ifndef CMWQ_LINUX_HASHTABLE_H
#define CMWQ_LINUX_HASHTABLE_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_LIST
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/hashtable.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_LIST

#include <linux/hash.h>
#include <linux/list.h>
#include <linux/rculist.h>

/* Zeros are empty lists. */
#define DECLARE_HASHTABLE(name, bits) struct hlist_head name[1 << (bits)]
#define DEFINE_HASHTABLE(name, bits) struct hlist_head name[1 << (bits)] = {{NULL}}
#define HASH_SIZE(table) (sizeof(table) / sizeof((table)[0]))
#define HASH_BITS(table) ((unsigned int)__builtin_ctzl(HASH_SIZE(table)))
#define CMWQ_HASH_AT(table, key) (&(table)[hash_64((uint64_t)(key), HASH_BITS(table))])

static inline void cmwq_hash_init(struct hlist_head *table, size_t size)
{
	while (size--)
		INIT_HLIST_HEAD(&table[size]);
}

static inline bool cmwq_hash_empty(const struct hlist_head *table, size_t size)
{
	while (size--)
		if (!hlist_empty(&table[size]))
			return false;
	return true;
}

#define hash_init(table) cmwq_hash_init((table), HASH_SIZE(table))
#define hash_empty(table) cmwq_hash_empty((table), HASH_SIZE(table))
#define hash_add(table, node, key) hlist_add_head((node), CMWQ_HASH_AT(table, key))
#define hash_hashed(node) (!hlist_unhashed(node))
#define hash_del(node) hlist_del_init(node)
#define hash_for_each(table, at, entry, member)                                          \
	for ((at) = 0, (entry) = NULL; !(entry) && (size_t)(at) < HASH_SIZE(table); (at)++) \
		hlist_for_each_entry(entry, &(table)[at], member)
#define hash_for_each_safe(table, at, n, entry, member)                                  \
	for ((at) = 0, (entry) = NULL; !(entry) && (size_t)(at) < HASH_SIZE(table); (at)++) \
		hlist_for_each_entry_safe(entry, n, &(table)[at], member)
#define hash_for_each_possible(table, entry, member, key) \
	hlist_for_each_entry(entry, CMWQ_HASH_AT(table, key), member)
#define hash_for_each_possible_safe(table, entry, n, member, key) \
	hlist_for_each_entry_safe(entry, n, CMWQ_HASH_AT(table, key), member)
#ifndef CMWQ_NO_RCUPDATE
#define hash_add_rcu(table, node, key) hlist_add_head_rcu((node), CMWQ_HASH_AT(table, key))
#define hash_del_rcu(node) hlist_del_init_rcu(node)
#define hash_for_each_rcu(table, at, entry, member)                                      \
	for ((at) = 0, (entry) = NULL; !(entry) && (size_t)(at) < HASH_SIZE(table); (at)++) \
		hlist_for_each_entry_rcu(entry, &(table)[at], member)
#define hash_for_each_possible_rcu(table, entry, member, key) \
	hlist_for_each_entry_rcu(entry, CMWQ_HASH_AT(table, key), member)
#endif

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: what is given back at
 * the end of a block: guard(mutex)(&lock), scoped_guard(spinlock, &lock) and __free(kfree). In C
 * only. A program that brings its own defines CMWQ_NO_KERNEL_MACROS.
 */
#ifndef CMWQ_LINUX_CLEANUP_H
#define CMWQ_LINUX_CLEANUP_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_KERNEL_MACROS
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/cleanup.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_KERNEL_MACROS

#ifndef __cplusplus

#include <linux/rcupdate.h>

#define __cleanup(function) __attribute__((__cleanup__(function)))

/* `how` is an expression or a statement with the pointer as _T. */
#define DEFINE_FREE(name, type, how)                                       \
	static inline void cmwq_free_##name(void *cmwq_variable)           \
	{                                                                  \
		type _T = *(type *)cmwq_variable;                          \
                                                                           \
		how;                                                       \
	}                                                                  \
	struct cmwq_cleanup_end
#define __free(name) __cleanup(cmwq_free_##name)
/* Returns the value; the end of the block does not free it any more. */
#define no_free_ptr(variable)                                      \
	__extension__({                                            \
		__typeof__(variable) cmwq_value = (variable);      \
                                                                   \
		(variable) = NULL;                                 \
		cmwq_value;                                        \
	})
#define return_ptr(variable) return no_free_ptr(variable)
#define retain_and_null_ptr(variable) ((void)no_free_ptr(variable))

/* What a block holds; without a function, nothing. */
struct cmwq_guard {
	void (*give_back)(void *what);
	void *what;
};

static inline void cmwq_guard_end(struct cmwq_guard *guard)
{
	if (guard->give_back)
		guard->give_back(guard->what);
}

/* `take` and `give` are expressions with the lock as _T. */
#define DEFINE_GUARD(name, type, take, give)                               \
	static inline void cmwq_guard_give_##name(void *cmwq_what)         \
	{                                                                  \
		type _T = (type)cmwq_what;                                 \
                                                                           \
		give;                                                      \
	}                                                                  \
	static inline struct cmwq_guard cmwq_guard_##name(type _T)         \
	{                                                                  \
		struct cmwq_guard guard_of = {cmwq_guard_give_##name, (void *)_T}; \
                                                                           \
		take;                                                      \
		return guard_of;                                           \
	}                                                                  \
	struct cmwq_cleanup_end

/* Until the end of the block: guard(mutex)(&lock); */
#define guard(name)                                           \
	struct cmwq_guard CMWQ_JOIN(cmwq_guard_at_, __LINE__) \
		__attribute__((__unused__)) __cleanup(cmwq_guard_end) = cmwq_guard_##name
/* During the statement behind it. */
#define scoped_guard(...)                                                     \
	for (struct cmwq_guard cmwq_held __cleanup(cmwq_guard_end) =          \
			CMWQ_BY_COUNT(CMWQ_GUARD_, __VA_ARGS__)(__VA_ARGS__), \
					 *cmwq_once = &cmwq_held;             \
		cmwq_once; cmwq_once = NULL)
#define CMWQ_GUARD_ONE(name) cmwq_guard_##name()
#define CMWQ_GUARD_MANY(name, ...) cmwq_guard_##name(__VA_ARGS__)

static inline void cmwq_guard_give_rcu(void *what)
{
	(void)what;
	rcu_read_unlock();
}

static inline struct cmwq_guard cmwq_guard_rcu(void)
{
	struct cmwq_guard guard_of = {cmwq_guard_give_rcu, NULL};

	rcu_read_lock();
	return guard_of;
}

#endif

#endif
#endif

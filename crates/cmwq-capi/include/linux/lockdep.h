/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: what names locks for a
 * checker that is not here: nothing happens. A program that brings its own defines CMWQ_NO_LOCKDEP.
 */
#ifndef CMWQ_LINUX_LOCKDEP_H
#define CMWQ_LINUX_LOCKDEP_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_LOCKDEP
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/lockdep.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_LOCKDEP

struct lock_class_key {
	char cmwq_unused;
};

struct lockdep_map {
	const char *name;
};

#define STATIC_LOCKDEP_MAP_INIT(name, key) {name}
/* Keys and maps are looked at, so that a variable for one is used. */
#define lockdep_init_map(map, text, key, subclass) ((void)(key), (void)((map)->name = (text)))
#define lock_map_acquire(map) ((void)(map))
#define lock_map_release(map) ((void)(map))
#define lockdep_set_class(lock, key) ((void)(lock), (void)(key))
#define lockdep_set_class_and_name(lock, key, name) ((void)(lock), (void)(key), (void)(name))
#define lockdep_set_subclass(lock, subclass) ((void)(lock), (void)(subclass))
#define lockdep_register_key(key) ((void)(key))
#define lockdep_unregister_key(key) ((void)(key))
#ifndef lockdep_assert_held
#define lockdep_assert_held(lock) ((void)(lock))
#endif
#ifndef lockdep_assert_held_write
#define lockdep_assert_held_write(lock) ((void)(lock))
#endif
#define lockdep_assert_held_read(lock) ((void)(lock))
#define lockdep_assert_held_once(lock) ((void)(lock))
#define lockdep_assert_not_held(lock) ((void)(lock))
#define lockdep_assert(condition) ((void)0)
#define lockdep_assert_once(condition) ((void)0)
#define lockdep_assert_none_held_once() ((void)0)
#define lockdep_assert_irqs_enabled() ((void)0)
#define lockdep_assert_irqs_disabled() ((void)0)
#define lockdep_assert_in_softirq() ((void)0)
#define lockdep_assert_preemption_disabled() ((void)0)
#define lockdep_set_novalidate_class(lock) ((void)(lock))
#define lockdep_off() ((void)0)
#define lockdep_on() ((void)0)
#define lock_map_acquire_read(map) ((void)(map))
#define might_lock_read(lock) ((void)(lock))
#define might_lock_nested(lock, subclass) ((void)(lock))
#ifndef SINGLE_DEPTH_NESTING
#define SINGLE_DEPTH_NESTING 1
#endif
#define lockdep_is_held(lock) ((void)(lock), 1)
#define might_lock(lock) ((void)(lock))

#endif
#endif

/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: a count of references
 * that can be killed: new ones are refused then, and the last one that goes calls the release
 * function. One counter, whatever its mode. A program that brings its own defines CMWQ_NO_PERCPU.
 */
#ifndef CMWQ_LINUX_PERCPU_REFCOUNT_H
#define CMWQ_LINUX_PERCPU_REFCOUNT_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_PERCPU
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/percpu-refcount.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_PERCPU

#include <linux/bug.h>
#include <linux/gfp.h>
#include <linux/types.h>

struct percpu_ref;
typedef void(percpu_ref_func_t)(struct percpu_ref *ref);

#define PERCPU_REF_INIT_ATOMIC 1u
#define PERCPU_REF_INIT_DEAD 2u
#define PERCPU_REF_ALLOW_REINIT 4u

/*
 * `count`: twice the references, and 1 if it is dead. Alive, one of them is the reference that
 * percpu_ref_kill() drops.
 */
struct percpu_ref {
	unsigned long count;
	percpu_ref_func_t *release;
};

#define CMWQ_REF_DEAD 1ul
#define CMWQ_REF_ONE 2ul

static inline CMWQ_MUST_CHECK int percpu_ref_init(struct percpu_ref *ref,
	percpu_ref_func_t *release, unsigned int flags, gfp_t gfp)
{
	(void)gfp;
	ref->count = flags & PERCPU_REF_INIT_DEAD ? CMWQ_REF_DEAD : CMWQ_REF_ONE;
	ref->release = release;
	return 0;
}

static inline void percpu_ref_exit(struct percpu_ref *ref)
{
	(void)ref;
}

static inline void percpu_ref_get_many(struct percpu_ref *ref, unsigned long n)
{
	__atomic_fetch_add(&ref->count, n * CMWQ_REF_ONE, __ATOMIC_RELAXED);
}

/* The last one's releaser sees what was done with the others. */
static inline void percpu_ref_put_many(struct percpu_ref *ref, unsigned long n)
{
	unsigned long left = __atomic_sub_fetch(&ref->count, n * CMWQ_REF_ONE, __ATOMIC_ACQ_REL);

	WARN_ON((long)left < 0);
	if (left < CMWQ_REF_ONE)
		ref->release(ref);
}

/* false: there is none left, or one of the bits in `refused` is set. */
static inline CMWQ_MUST_CHECK bool cmwq_ref_tryget(struct percpu_ref *ref, unsigned long n,
	unsigned long refused)
{
	unsigned long count = __atomic_load_n(&ref->count, __ATOMIC_RELAXED);

	do {
		if (count < CMWQ_REF_ONE || count & refused)
			return false;
	} while (!__atomic_compare_exchange_n(&ref->count, &count, count + n * CMWQ_REF_ONE, 1,
		__ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	return true;
}

#define percpu_ref_get(ref) percpu_ref_get_many((ref), 1)
#define percpu_ref_put(ref) percpu_ref_put_many((ref), 1)
#define percpu_ref_tryget_many(ref, n) cmwq_ref_tryget((ref), (n), 0)
#define percpu_ref_tryget(ref) percpu_ref_tryget_many((ref), 1)
#define percpu_ref_tryget_live(ref) cmwq_ref_tryget((ref), 1, CMWQ_REF_DEAD)
#define percpu_ref_tryget_live_rcu(ref) percpu_ref_tryget_live(ref)

/* `confirm` is called at once: percpu_ref_tryget_live() fails for everybody. */
static inline void percpu_ref_kill_and_confirm(struct percpu_ref *ref, percpu_ref_func_t *confirm)
{
	WARN_ON(__atomic_fetch_or(&ref->count, CMWQ_REF_DEAD, __ATOMIC_ACQ_REL) & CMWQ_REF_DEAD);
	if (confirm)
		confirm(ref);
	percpu_ref_put(ref);
}

#define percpu_ref_kill(ref) percpu_ref_kill_and_confirm((ref), NULL)

/* Alive again, while there are references or not. */
static inline void percpu_ref_resurrect(struct percpu_ref *ref)
{
	percpu_ref_get(ref);
	WARN_ON(!(
		__atomic_fetch_and(&ref->count, ~CMWQ_REF_DEAD, __ATOMIC_ACQ_REL) & CMWQ_REF_DEAD));
}

static inline bool percpu_ref_is_zero(struct percpu_ref *ref)
{
	return __atomic_load_n(&ref->count, __ATOMIC_ACQUIRE) < CMWQ_REF_ONE;
}

static inline bool percpu_ref_is_dying(struct percpu_ref *ref)
{
	return (__atomic_load_n(&ref->count, __ATOMIC_ACQUIRE) & CMWQ_REF_DEAD) != 0;
}

static inline void percpu_ref_reinit(struct percpu_ref *ref)
{
	WARN_ON(!percpu_ref_is_zero(ref));
	percpu_ref_resurrect(ref);
}

static inline void percpu_ref_switch_to_atomic(struct percpu_ref *ref, percpu_ref_func_t *confirm)
{
	if (confirm)
		confirm(ref);
}

#define percpu_ref_switch_to_atomic_sync(ref) ((void)(ref))
#define percpu_ref_switch_to_percpu(ref) ((void)(ref))

#endif
#endif

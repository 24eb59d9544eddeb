/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: memory with a copy for
 * each CPU. A thread may move to another CPU at any time: what this_cpu_add() and its like change
 * is a copy, each change is atomic. A program that brings its own defines CMWQ_NO_PERCPU.
 */
#ifndef CMWQ_LINUX_PERCPU_H
#define CMWQ_LINUX_PERCPU_H

#include <linux/cmwq_base.h>
#if defined(CMWQ_NO_PERCPU)
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/percpu.h"
#include <linux/cmwq_next.h>
#else

#include <linux/cmwq_compiler.h>
#include <linux/cpumask.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Strict C11 programs do not see the names. Linux has the same values on x86-64 and 64-bit Arm. */
#if defined(MAP_ANONYMOUS) && defined(MAP_NORESERVE)
#define CMWQ_MAP_ANONYMOUS (MAP_ANONYMOUS | MAP_NORESERVE)
#else
#define CMWQ_MAP_ANONYMOUS (0x20 | 0x4000)
#endif

/* From one CPU's copy to the next. Only what is used of it takes memory. */
#define CMWQ_PERCPU_STRIDE 65536ul
#define PCPU_MIN_UNIT_SIZE CMWQ_PERCPU_STRIDE

/* All CPUs that a thread can find itself on. The same during the life of a process. */
static inline size_t cmwq_percpu_size(void)
{
	size_t possible = nr_cpu_ids, configured = (size_t)sysconf(_SC_NPROCESSORS_CONF);

	return (possible > configured ? possible : configured) * CMWQ_PERCPU_STRIDE;
}

/* Zeros; NULL: no memory, more than 64 KiB, or an alignment beyond a page's. */
static inline CMWQ_MUST_CHECK void __percpu *__alloc_percpu(size_t size, size_t align)
{
	void *copies;

	if (!size || size > CMWQ_PERCPU_STRIDE || align > 4096)
		return NULL;
	copies = mmap(NULL, cmwq_percpu_size(), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | CMWQ_MAP_ANONYMOUS, -1, 0);
	return copies == MAP_FAILED ? NULL : copies;
}

static inline void free_percpu(void __percpu *copies)
{
	if (copies)
		munmap(copies, cmwq_percpu_size());
}

#define alloc_percpu(type) ((type __percpu *)__alloc_percpu(sizeof(type), __alignof__(type)))
#define alloc_percpu_gfp(type, flags) alloc_percpu(type)
#define __alloc_percpu_gfp(size, align, flags) __alloc_percpu((size), (align))

/*
 * What DEFINE_PER_CPU() defines lies in a section of its own, which is the pattern: each program
 * and shared object has one, and copies of it for all CPUs from the first use on. (The linker gives
 * the ends of a section names, if there is one.)
 */
#define DEFINE_PER_CPU(type, name) __attribute__((__section__("cmwq_percpu"))) __typeof__(type) name
#define DECLARE_PER_CPU(type, name) extern __typeof__(type) name
#define DEFINE_PER_CPU_ALIGNED(type, name) \
	__attribute__((__aligned__(64))) DEFINE_PER_CPU(type, name)
#define DEFINE_PER_CPU_SHARED_ALIGNED(type, name) DEFINE_PER_CPU_ALIGNED(type, name)
#define DEFINE_PER_CPU_READ_MOSTLY(type, name) DEFINE_PER_CPU(type, name)

#ifdef __cplusplus
extern "C" {
#endif
extern char __start_cmwq_percpu[] __attribute__((__weak__, __visibility__("hidden")));
extern char __stop_cmwq_percpu[] __attribute__((__weak__, __visibility__("hidden")));
__attribute__((__weak__, __visibility__("hidden"))) char *cmwq_percpu_copies;
#ifdef __cplusplus
}
#endif

static inline char *cmwq_percpu_make(void)
{
	size_t at, size = (size_t)(__stop_cmwq_percpu - __start_cmwq_percpu);
	char *copies = (char *)__alloc_percpu(size, 1), *first = NULL;

	/* No caller could be told. */
	if (!copies)
		abort();
	for (at = 0; at < cmwq_percpu_size(); at += CMWQ_PERCPU_STRIDE)
		memcpy(copies + at, __start_cmwq_percpu, size);
	if (__atomic_compare_exchange_n(&cmwq_percpu_copies, &first, copies, 0, __ATOMIC_ACQ_REL,
		    __ATOMIC_ACQUIRE))
		return copies;
	free_percpu(copies);
	return first;
}

/* The copy of CPU 0. */
static inline char *cmwq_percpu_first(const volatile void *ptr)
{
	size_t offset = (size_t)((uintptr_t)ptr - (uintptr_t)__start_cmwq_percpu);
	char *copies;

	if (offset >= (size_t)((uintptr_t)__stop_cmwq_percpu - (uintptr_t)__start_cmwq_percpu))
		return (char *)(uintptr_t)ptr;
	copies = __atomic_load_n(&cmwq_percpu_copies, __ATOMIC_ACQUIRE);
	return (copies ? copies : cmwq_percpu_make()) + offset;
}

#define per_cpu_ptr(ptr, cpu) \
	((__typeof__(ptr))(void *)(cmwq_percpu_first(ptr) + (size_t)(cpu) * CMWQ_PERCPU_STRIDE))
#define per_cpu(name, cpu) (*per_cpu_ptr(&(name), (cpu)))
#define get_cpu_var(name) (*this_cpu_ptr(&(name)))
#define put_cpu_var(name) ((void)&(name))
#define this_cpu_ptr(ptr) per_cpu_ptr((ptr), cmwq_current_cpu())
#define raw_cpu_ptr(ptr) this_cpu_ptr(ptr)
#define get_cpu_ptr(ptr) this_cpu_ptr(ptr)
#define put_cpu_ptr(ptr) ((void)(ptr))

/* Of a member of such memory, or of all of it: this_cpu_inc(counters->hits). */
#define this_cpu_read(x) __atomic_load_n(this_cpu_ptr(&(x)), __ATOMIC_RELAXED)
#define this_cpu_write(x, value) \
	__atomic_store_n(this_cpu_ptr(&(x)), CMWQ_AS_ASSIGNED(x, value), __ATOMIC_RELAXED)
#define this_cpu_add(x, value) \
	((void)__atomic_fetch_add(this_cpu_ptr(&(x)), (value), __ATOMIC_RELAXED))
#define this_cpu_sub(x, value) \
	((void)__atomic_fetch_sub(this_cpu_ptr(&(x)), (value), __ATOMIC_RELAXED))
#define this_cpu_add_return(x, value) \
	__atomic_add_fetch(this_cpu_ptr(&(x)), (value), __ATOMIC_RELAXED)
#define this_cpu_inc(x) this_cpu_add(x, 1)
#define this_cpu_dec(x) this_cpu_sub(x, 1)
#define this_cpu_inc_return(x) this_cpu_add_return(x, 1)
#define this_cpu_dec_return(x) __atomic_sub_fetch(this_cpu_ptr(&(x)), 1, __ATOMIC_RELAXED)
#define this_cpu_xchg(x, value) \
	__atomic_exchange_n(this_cpu_ptr(&(x)), CMWQ_AS_ASSIGNED(x, value), __ATOMIC_RELAXED)
#define raw_cpu_read(x) this_cpu_read(x)
#define raw_cpu_write(x, value) this_cpu_write(x, value)
#define raw_cpu_add(x, value) this_cpu_add(x, value)
#define raw_cpu_inc(x) this_cpu_inc(x)
#define raw_cpu_dec(x) this_cpu_dec(x)
#define __this_cpu_read(x) this_cpu_read(x)
#define __this_cpu_write(x, value) this_cpu_write(x, value)
#define __this_cpu_add(x, value) this_cpu_add(x, value)
#define __this_cpu_sub(x, value) this_cpu_sub(x, value)
#define __this_cpu_inc(x) this_cpu_inc(x)
#define __this_cpu_dec(x) this_cpu_dec(x)
#define this_cpu_cmpxchg(x, from, to)                                               \
	__extension__({                                                             \
		__typeof__(x) cmwq_was = (from);                                    \
		__atomic_compare_exchange_n(this_cpu_ptr(&(x)), &cmwq_was, (to), 0, \
			__ATOMIC_SEQ_CST, __ATOMIC_RELAXED);                        \
		cmwq_was;                                                           \
	})

#endif
#endif

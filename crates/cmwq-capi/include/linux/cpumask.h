/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This header of cmwq has names of the kernel, for programs in user space: sets of CPUs, as far as
 * workqueue attributes need them. A program that brings its own defines CMWQ_NO_CPUMASK; workqueue
 * attributes under the kernel's names are not there then.
 */
#ifndef CMWQ_LINUX_CPUMASK_H
#define CMWQ_LINUX_CPUMASK_H

#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CPUMASK
#undef CMWQ_NEXT
#define CMWQ_NEXT "linux/cpumask.h"
#include <linux/cmwq_next.h>
#endif

#ifndef CMWQ_NO_CPUMASK

#include <linux/cmwq_bitmap_text.h>
#include <linux/types.h>
#include <string.h>

/* Workqueue attributes need a mask of ours. */
#define CMWQ_HAS_CPUMASK

#ifndef NR_CPUS
#define NR_CPUS CMWQ_MAX_CPUS
#endif

/* As in the kernel, but always of the largest size. */
typedef struct cpumask {
	unsigned long bits[CMWQ_CPUMASK_WORDS];
} cpumask_t;
/* As in kernels that keep masks in place: a name of this type is a pointer to its mask. */
typedef struct cpumask cpumask_var_t[1];

#define cpumask_bits(mask) ((mask)->bits)
/* How many bits of a mask mean something. */
#define nr_cpumask_bits (nr_cpu_ids)

static inline CMWQ_MUST_CHECK bool alloc_cpumask_var(cpumask_var_t *mask, unsigned int flags)
{
	(void)mask;
	(void)flags;
	return true;
}

static inline void cpumask_clear(struct cpumask *mask)
{
	memset(mask, 0, sizeof(*mask));
}

static inline CMWQ_MUST_CHECK bool zalloc_cpumask_var(cpumask_var_t *mask, unsigned int flags)
{
	(void)flags;
	cpumask_clear(*mask);
	return true;
}

static inline void free_cpumask_var(struct cpumask *mask)
{
	(void)mask;
}

static inline void cpumask_setall(struct cpumask *mask)
{
	memset(mask, 0xff, sizeof(*mask));
}

static inline void cpumask_set_cpu(unsigned int cpu, struct cpumask *mask)
{
	if (cpu < CMWQ_MAX_CPUS)
		mask->bits[cpu / 64] |= 1UL << cpu % 64;
}

static inline void cpumask_clear_cpu(unsigned int cpu, struct cpumask *mask)
{
	if (cpu < CMWQ_MAX_CPUS)
		mask->bits[cpu / 64] &= ~(1UL << cpu % 64);
}

static inline bool cpumask_test_cpu(unsigned int cpu, const struct cpumask *mask)
{
	return cpu < CMWQ_MAX_CPUS && (mask->bits[cpu / 64] >> cpu % 64 & 1);
}

static inline void cpumask_copy(struct cpumask *to, const struct cpumask *from)
{
	*to = *from;
}

static inline bool cpumask_and(struct cpumask *to, const struct cpumask *a, const struct cpumask *b)
{
	unsigned long any = 0;
	int i;

	for (i = 0; i < CMWQ_CPUMASK_WORDS; i++)
		any |= to->bits[i] = a->bits[i] & b->bits[i];
	return any != 0;
}

static inline bool cpumask_andnot(struct cpumask *to, const struct cpumask *a,
	const struct cpumask *b)
{
	unsigned long any = 0;
	int i;

	for (i = 0; i < CMWQ_CPUMASK_WORDS; i++)
		any |= to->bits[i] = a->bits[i] & ~b->bits[i];
	return any != 0;
}

static inline void cpumask_or(struct cpumask *to, const struct cpumask *a, const struct cpumask *b)
{
	int i;

	for (i = 0; i < CMWQ_CPUMASK_WORDS; i++)
		to->bits[i] = a->bits[i] | b->bits[i];
}

static inline bool cpumask_equal(const struct cpumask *a, const struct cpumask *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static inline unsigned int cpumask_weight(const struct cpumask *mask)
{
	unsigned int weight = 0;
	int i;

	for (i = 0; i < CMWQ_CPUMASK_WORDS; i++)
		weight += (unsigned int)__builtin_popcountl(mask->bits[i]);
	return weight;
}

/* The next CPU after `cpu` (-1: the first); nr_cpu_ids or more: there is none. */
static inline unsigned int cpumask_next(int cpu, const struct cpumask *mask)
{
	unsigned int next = (unsigned int)(cpu + 1);

	while (next < CMWQ_MAX_CPUS) {
		unsigned long rest = mask->bits[next / 64] >> next % 64;

		if (rest)
			return next + (unsigned int)__builtin_ctzl(rest);
		next = (next / 64 + 1) * 64;
	}
	return CMWQ_MAX_CPUS;
}

static inline unsigned int cpumask_first(const struct cpumask *mask)
{
	return cpumask_next(-1, mask);
}

static inline bool cpumask_empty(const struct cpumask *mask)
{
	return cpumask_first(mask) >= CMWQ_MAX_CPUS;
}

static inline bool cpumask_intersects(const struct cpumask *a, const struct cpumask *b)
{
	int i;

	for (i = 0; i < CMWQ_CPUMASK_WORDS; i++)
		if (a->bits[i] & b->bits[i])
			return true;
	return false;
}

static inline bool cpumask_subset(const struct cpumask *a, const struct cpumask *of)
{
	int i;

	for (i = 0; i < CMWQ_CPUMASK_WORDS; i++)
		if (a->bits[i] & ~of->bits[i])
			return false;
	return true;
}

static inline bool cpumask_full(const struct cpumask *mask)
{
	int i;

	for (i = 0; i < CMWQ_CPUMASK_WORDS; i++)
		if (~mask->bits[i])
			return false;
	return true;
}

static inline unsigned int cpumask_next_and(int cpu, const struct cpumask *a,
	const struct cpumask *b)
{
	unsigned int next = cpumask_next(cpu, a);

	while (next < CMWQ_MAX_CPUS && !cpumask_test_cpu(next, b))
		next = cpumask_next((int)next, a);
	return next;
}

static inline unsigned int cpumask_first_and(const struct cpumask *a, const struct cpumask *b)
{
	return cpumask_next_and(-1, a, b);
}

static inline unsigned int cpumask_last(const struct cpumask *mask)
{
	unsigned int cpu, last = CMWQ_MAX_CPUS;

	for (cpu = cpumask_first(mask); cpu < CMWQ_MAX_CPUS; cpu = cpumask_next((int)cpu, mask))
		last = cpu;
	return last;
}

/* The n-th, from 0 on. */
static inline unsigned int cpumask_nth(unsigned int n, const struct cpumask *mask)
{
	unsigned int cpu = cpumask_first(mask);

	while (n-- && cpu < CMWQ_MAX_CPUS)
		cpu = cpumask_next((int)cpu, mask);
	return cpu;
}

/* The next one, and the first one after the last; of none, nr_cpu_ids or more. */
static inline unsigned int cpumask_next_wrap(int cpu, const struct cpumask *mask)
{
	unsigned int next = cpumask_next(cpu, mask);

	return next < CMWQ_MAX_CPUS ? next : cpumask_first(mask);
}

static inline unsigned int cpumask_any(const struct cpumask *mask)
{
	return cpumask_first(mask);
}

#define for_each_cpu_and(cpu, a, b)                                                         \
	for ((cpu) = (int)cpumask_first_and((a), (b)); (unsigned int)(cpu) < CMWQ_MAX_CPUS; \
		(cpu) = (int)cpumask_next_and((int)(cpu), (a), (b)))
#define for_each_cpu_wrap(cpu, mask, start)                                               \
	for (int cmwq_left = (((cpu) = (int)cpumask_next_wrap((int)(start) - 1, (mask))), \
		     (int)cpumask_weight(mask));                                          \
		cmwq_left > 0; cmwq_left--, (cpu) = (int)cpumask_next_wrap((int)(cpu), (mask)))
#define for_each_cpu(cpu, mask)                                                     \
	for ((cpu) = (int)cpumask_first(mask); (unsigned int)(cpu) < CMWQ_MAX_CPUS; \
		(cpu) = (int)cpumask_next((int)(cpu), mask))

/*
 * The machine's sets, as they are at the call: each use of these names asks the system again and
 * writes the answer to memory of the calling thread.
 */
static inline const struct cpumask *cmwq_mask_now(int (*ask)(struct cmwq_cpumask *),
	struct cpumask *into)
{
	/* A set that the system does not tell is empty. */
	if (ask((struct cmwq_cpumask *)(void *)into) != 0)
		cpumask_clear(into);
	return into;
}

static inline const struct cpumask *cmwq_online_mask(void)
{
	static __thread struct cpumask mask;

	return cmwq_mask_now(cmwq_online_cpus, &mask);
}

static inline const struct cpumask *cmwq_possible_mask(void)
{
	static __thread struct cpumask mask;

	return cmwq_mask_now(cmwq_possible_cpus, &mask);
}

static inline const struct cpumask *cpumask_of(int cpu)
{
	static __thread struct cpumask mask;

	cpumask_clear(&mask);
	cpumask_set_cpu((unsigned int)cpu, &mask);
	return &mask;
}

static inline unsigned int cmwq_nr_cpu_ids(void)
{
	const struct cpumask *mask = cmwq_possible_mask();
	unsigned int cpu, last = 0;

	for (cpu = cpumask_first(mask); cpu < CMWQ_MAX_CPUS; cpu = cpumask_next((int)cpu, mask))
		last = cpu;
	return last + 1;
}

#define cpu_online_mask (cmwq_online_mask())
#define cpu_possible_mask (cmwq_possible_mask())
#define cpu_present_mask (cmwq_possible_mask())
#define nr_cpu_ids (cmwq_nr_cpu_ids())
#define num_online_cpus() cpumask_weight(cpu_online_mask)
#define num_possible_cpus() cpumask_weight(cpu_possible_mask)
#define cpu_online(cpu) cpumask_test_cpu((unsigned int)(cpu), cpu_online_mask)
#define for_each_online_cpu(cpu) for_each_cpu(cpu, cpu_online_mask)
#define for_each_possible_cpu(cpu) for_each_cpu(cpu, cpu_possible_mask)
/* For %*pb and %*pbl. */
#define cpumask_pr_args(mask) (int)nr_cpumask_bits, (void *)(uintptr_t)cpumask_bits(mask)
/* Hints: the thread may move at any time. */
#define raw_smp_processor_id() (cmwq_current_cpu())
#define smp_processor_id() (cmwq_current_cpu())

/* ---- as texts: what CPUs there cannot be is -EOVERFLOW in a mask, -ERANGE in a list ---- */

static inline CMWQ_MUST_CHECK int cpumask_parse(const char *text, struct cpumask *mask)
{
	const char *end = strchr(text, '\n');

	cpumask_clear(mask);
	return cmwq_bits_parse_mask(text, end ? (size_t)(end - text) : strlen(text),
		cpumask_bits(mask), nr_cpumask_bits);
}

static inline CMWQ_MUST_CHECK int cpulist_parse(const char *text, struct cpumask *mask)
{
	cpumask_clear(mask);
	return cmwq_bits_parse_list(text, cpumask_bits(mask), nr_cpumask_bits);
}

/* Into a page, with a newline. */
static inline ssize_t cpumap_print_to_pagebuf(bool list, char *text, const struct cpumask *mask)
{
	size_t size = 4096 - 1,
	       at = (list ? cmwq_bits_list : cmwq_bits_mask)(text, size, cpumask_bits(mask),
		       nr_cpumask_bits);

	at = at < size - 1 ? at : size - 1;
	text[at++] = '\n';
	text[at] = '\0';
	return (ssize_t)at;
}

/* ---- the rest of sets ---- */

#define CPU_MASK_NONE {{0}}
#define __cpumask_set_cpu(cpu, mask) cpumask_set_cpu((cpu), (mask))
#define __cpumask_clear_cpu(cpu, mask) cpumask_clear_cpu((cpu), (mask))
#define cpumask_available(mask) true
#define cpumask_size() sizeof(struct cpumask)
#define alloc_cpumask_var_node(mask, flags, node) alloc_cpumask_var((mask), (flags))
#define zalloc_cpumask_var_node(mask, flags, node) zalloc_cpumask_var((mask), (flags))

/* Atomic, these two. */
static inline bool cpumask_test_and_set_cpu(int cpu, struct cpumask *mask)
{
	unsigned long bit = 1UL << cpu % 64;

	return (__atomic_fetch_or(&mask->bits[cpu / 64], bit, __ATOMIC_SEQ_CST) & bit) != 0;
}

static inline bool cpumask_test_and_clear_cpu(int cpu, struct cpumask *mask)
{
	unsigned long bit = 1UL << cpu % 64;

	return (__atomic_fetch_and(&mask->bits[cpu / 64], ~bit, __ATOMIC_SEQ_CST) & bit) != 0;
}

static inline void cpumask_xor(struct cpumask *to, const struct cpumask *a, const struct cpumask *b)
{
	int i;

	for (i = 0; i < CMWQ_CPUMASK_WORDS; i++)
		to->bits[i] = a->bits[i] ^ b->bits[i];
}

static inline void cpumask_complement(struct cpumask *to, const struct cpumask *from)
{
	int i;

	for (i = 0; i < CMWQ_CPUMASK_WORDS; i++)
		to->bits[i] = ~from->bits[i];
}

static inline unsigned int cpumask_weight_and(const struct cpumask *a, const struct cpumask *b)
{
	struct cpumask both;

	cpumask_and(&both, a, b);
	return cpumask_weight(&both);
}

static inline unsigned int cpumask_next_zero(int cpu, const struct cpumask *mask)
{
	struct cpumask others;

	cpumask_complement(&others, mask);
	return cpumask_next(cpu, &others);
}

#define cpumask_first_zero(mask) cpumask_next_zero(-1, (mask))

static inline unsigned int cpumask_next_and_wrap(int cpu, const struct cpumask *a,
	const struct cpumask *b)
{
	unsigned int next = cpumask_next_and(cpu, a, b);

	return next < CMWQ_MAX_CPUS ? next : cpumask_first_and(a, b);
}

static inline unsigned int cpumask_nth_and(unsigned int n, const struct cpumask *a,
	const struct cpumask *b)
{
	struct cpumask both;

	cpumask_and(&both, a, b);
	return cpumask_nth(n, &both);
}

/* Another one than `cpu`. */
static inline unsigned int cpumask_any_but(const struct cpumask *mask, unsigned int cpu)
{
	unsigned int any = cpumask_first(mask);

	return any == cpu ? cpumask_next((int)cpu, mask) : any;
}

#define cpumask_any_and(a, b) cpumask_first_and((a), (b))

/* Returns not always the same CPU, but the next one after that of the thread's last call. */
static inline unsigned int cpumask_any_and_distribute(const struct cpumask *a,
	const struct cpumask *b)
{
	static __thread int last = -1;
	unsigned int next = cpumask_next_and_wrap(last, a, b);

	if (next < CMWQ_MAX_CPUS)
		last = (int)next;
	return next;
}

#define cpumask_any_distribute(mask) cpumask_any_and_distribute((mask), (mask))
#define for_each_cpu_andnot(cpu, a, b) \
	for_each_cpu(cpu, a) if (!cpumask_test_cpu((unsigned int)(cpu), (b)))
#define for_each_cpu_from(cpu, mask)                            \
	for ((cpu) = (int)cpumask_next((int)(cpu) - 1, (mask)); \
		(unsigned int)(cpu) < CMWQ_MAX_CPUS;            \
		(cpu) = (int)cpumask_next((int)(cpu), (mask)))
#define cpu_active_mask cpu_online_mask
#define cpu_active(cpu) cpu_online(cpu)
#define cpu_possible(cpu) cpumask_test_cpu((unsigned int)(cpu), cpu_possible_mask)
#define cpu_present(cpu) cpumask_test_cpu((unsigned int)(cpu), cpu_present_mask)
#define num_present_cpus() cpumask_weight(cpu_present_mask)
#define num_active_cpus() num_online_cpus()
#define for_each_present_cpu(cpu) for_each_cpu(cpu, cpu_present_mask)
/* Every bit, and none. */
static const struct cpumask cmwq_no_cpus __attribute__((__unused__)) = CPU_MASK_NONE;
#define cpu_none_mask (&cmwq_no_cpus)
static inline const struct cpumask *cmwq_all_cpus(void)
{
	static __thread struct cpumask mask;

	cpumask_setall(&mask);
	return &mask;
}
#define cpu_all_mask (cmwq_all_cpus())
#define for_each_cpu_or(cpu, a, b)                                    \
	for ((cpu) = 0; (unsigned int)(cpu) < CMWQ_MAX_CPUS; (cpu)++) \
		if (cpumask_test_cpu((unsigned int)(cpu), (a)) ||     \
			cpumask_test_cpu((unsigned int)(cpu), (b)))

#define CMWQ_ONES_8 ~0UL, ~0UL, ~0UL, ~0UL, ~0UL, ~0UL, ~0UL, ~0UL
#define CMWQ_ONES_64                                                                               \
	CMWQ_ONES_8, CMWQ_ONES_8, CMWQ_ONES_8, CMWQ_ONES_8, CMWQ_ONES_8, CMWQ_ONES_8, CMWQ_ONES_8, \
		CMWQ_ONES_8
CMWQ_ASSERT(CMWQ_CPUMASK_WORDS == 128, "as many words as CPU_MASK_ALL has");
#define CPU_MASK_ALL {{CMWQ_ONES_64, CMWQ_ONES_64}}
#define cpu_is_offline(cpu) (!cpu_online(cpu))

static inline bool cpumask_or_equal(const struct cpumask *a, const struct cpumask *b,
	const struct cpumask *with)
{
	struct cpumask both;

	cpumask_or(&both, a, b);
	return cpumask_equal(&both, with);
}

static inline unsigned int cpumask_weight_andnot(const struct cpumask *a, const struct cpumask *b)
{
	return cpumask_weight(a) - cpumask_weight_and(a, b);
}

static inline unsigned int cpumask_next_andnot(int cpu, const struct cpumask *a,
	const struct cpumask *b)
{
	struct cpumask rest;

	cpumask_andnot(&rest, a, b);
	return cpumask_next(cpu, &rest);
}

#define cpumask_first_andnot(a, b) cpumask_next_andnot(-1, (a), (b))

static inline unsigned int cpumask_nth_andnot(unsigned int n, const struct cpumask *a,
	const struct cpumask *b)
{
	struct cpumask rest;

	cpumask_andnot(&rest, a, b);
	return cpumask_nth(n, &rest);
}

static inline unsigned int cpumask_any_and_but(const struct cpumask *a, const struct cpumask *b,
	unsigned int cpu)
{
	unsigned int any = cpumask_first_and(a, b);

	return any == cpu ? cpumask_next_and((int)cpu, a, b) : any;
}

static inline void cpumask_assign_cpu(int cpu, struct cpumask *mask, bool is)
{
	if (is)
		cpumask_set_cpu((unsigned int)cpu, mask);
	else
		cpumask_clear_cpu((unsigned int)cpu, mask);
}

/* cpumask_local_spread(), cpumask_of_node(). */
#ifndef CMWQ_NO_NODEMASK
#include <linux/topology.h>
#endif

#define for_each_online_cpu_wrap(cpu, start) for_each_cpu_wrap(cpu, cpu_online_mask, start)
#define for_each_possible_cpu_wrap(cpu, start) for_each_cpu_wrap(cpu, cpu_possible_mask, start)
#define for_each_cpu_not(cpu, mask) \
	for_each_possible_cpu(cpu) if (!cpumask_test_cpu((unsigned int)(cpu), (mask)))
#define cpu_dying(cpu) ((void)(cpu), false)
#define cpumask_check(cpu) (cpu)

static inline unsigned int cpumask_first_and_and(const struct cpumask *a, const struct cpumask *b,
	const struct cpumask *c)
{
	unsigned int cpu = cpumask_first_and(a, b);

	while (cpu < nr_cpu_ids && !cpumask_test_cpu(cpu, c))
		cpu = cpumask_next_and((int)cpu, a, b);
	return cpu;
}

#endif
#endif

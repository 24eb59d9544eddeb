/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Kernel-shaped, for user space; part of cmwq: sets of CPUs, as far as workqueue attributes need them. A program that brings its own
 * defines CMWQ_NO_CPUMASK; workqueue attributes under the kernel's names are not there then.
 */
#ifndef CMWQ_LINUX_CPUMASK_H
#define CMWQ_LINUX_CPUMASK_H

/* Silences -Wpedantic for include_next. */
#if defined(__GNUC__)
#pragma GCC system_header
#endif
#include <linux/cmwq_base.h>
#ifdef CMWQ_NO_CPUMASK
#if defined(__has_include_next)
#if __has_include_next(<linux/cpumask.h>)
#include_next <linux/cpumask.h>
#endif
#endif
#endif

#ifndef CMWQ_NO_CPUMASK

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

static inline bool alloc_cpumask_var(cpumask_var_t *mask, unsigned int flags)
{
	(void)mask;
	(void)flags;
	return true;
}

static inline void cpumask_clear(struct cpumask *mask)
{
	memset(mask, 0, sizeof(*mask));
}

static inline bool zalloc_cpumask_var(cpumask_var_t *mask, unsigned int flags)
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

static inline bool cpumask_andnot(struct cpumask *to, const struct cpumask *a, const struct cpumask *b)
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

#define for_each_cpu(cpu, mask) \
	for ((cpu) = (int)cpumask_first(mask); (unsigned int)(cpu) < CMWQ_MAX_CPUS; (cpu) = (int)cpumask_next((int)(cpu), mask))

/* The machine's sets, as they are at the call: each use of these names asks again, into a place of the thread's. */
static inline const struct cpumask *cmwq_mask_now(int (*ask)(struct cmwq_cpumask *), struct cpumask *into)
{
	/* What cannot be asked is empty. */
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
/* Hints: the thread may move at any time. */
#define raw_smp_processor_id() (cmwq_current_cpu())
#define smp_processor_id() (cmwq_current_cpu())

#endif
#endif
